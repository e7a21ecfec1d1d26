package websocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// frame makes a client's frame: masked, with any first byte.
func frame(first byte, payload string) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n <= 125:
		b = append(b, maskBit|byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, maskBit|len16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, maskBit|len64), uint64(n))
	}
	b = append(b, 0x12, 0xab, 0x34, 0xcd)
	at := len(b)
	b = append(b, payload...)
	unmask(b[at:], binary.LittleEndian.Uint32(b[at-4:]))
	return b
}

// record is a sink that records its calls.
type record struct {
	got  []string
	stop bool
}

func (r *record) Message(op Opcode, p []byte) bool {
	r.got = append(r.got, fmt.Sprintf("%d:%s", op, brief(p)))
	return !r.stop
}
func (r *record) Ping(p []byte) { r.got = append(r.got, "ping:"+string(p)) }
func (r *record) Pong(p []byte) { r.got = append(r.got, "pong:"+string(p)) }
func (r *record) CloseFrame(code uint16, reason string) {
	r.got = append(r.got, fmt.Sprintf("close:%d:%s", code, reason))
}

func brief(p []byte) string {
	if len(p) <= 40 {
		return string(p)
	}
	return fmt.Sprintf("%s…(%d)", p[:8], len(p))
}

// feed parses input in pieces as a reactor does: it passes unused bytes again with the next piece.
func feed(p *Parser, input []byte, piece int, s *record) error {
	var kept []byte
	for b := range slices.Chunk(bytes.Clone(input), piece) {
		kept = append(kept, b...)
		used, err := p.Feed(kept, s)
		if err != nil {
			return err
		}
		kept = bytes.Clone(kept[used:])
	}
	return nil
}

func TestParser(t *testing.T) {
	const (
		text, bin, cont           = finBit | 1, finBit | 2, finBit
		textPart, binPart, contPt = 1, 2, 0
		closing, ping, pong       = finBit | 8, finBit | 9, finBit | 10
	)
	long := strings.Repeat("x", 70_000)
	raw := func(b ...byte) []byte { return b }
	code := func(c uint16, reason string) []byte {
		return frame(closing, string(binary.BigEndian.AppendUint16(nil, c))+reason)
	}
	cases := []struct {
		name string
		in   [][]byte
		want []string
		code uint16 // of the error; 0: none
	}{
		{"empty text", [][]byte{frame(text, "")}, []string{"1:"}, 0},
		{"text", [][]byte{frame(text, "héllo")}, []string{"1:héllo"}, 0},
		{"binary need not be UTF-8", [][]byte{frame(bin, "\xff\xfe")}, []string{"2:\xff\xfe"}, 0},
		{"125 bytes", [][]byte{frame(text, long[:125])}, []string{"1:xxxxxxxx…(125)"}, 0},
		{"126 bytes", [][]byte{frame(text, long[:126])}, []string{"1:xxxxxxxx…(126)"}, 0},
		{"65535 bytes", [][]byte{frame(bin, long[:65535])}, []string{"2:xxxxxxxx…(65535)"}, 0},
		{"65536 bytes", [][]byte{frame(bin, long[:65536])}, []string{"2:xxxxxxxx…(65536)"}, 0},
		{"several in one read", [][]byte{frame(text, "a"), frame(ping, "p"), frame(bin, "b")}, []string{"1:a", "ping:p", "2:b"}, 0},
		{"fragments", [][]byte{frame(textPart, "one "), frame(contPt, ""), frame(contPt, "two "), frame(cont, "three")}, []string{"1:one two three"}, 0},
		{"control frames between fragments", [][]byte{frame(binPart, "a"), frame(ping, "hi"), frame(contPt, "b"), frame(pong, ""), frame(cont, "c"), frame(text, "d")}, []string{"ping:hi", "pong:", "2:abc", "1:d"}, 0},
		{"a character split by fragments", [][]byte{frame(textPart, "\xe2\x82"), frame(cont, "\xac")}, []string{"1:€"}, 0},
		{"125 byte ping", [][]byte{frame(ping, long[:125])}, []string{"ping:" + long[:125]}, 0},
		{"close without code", [][]byte{frame(closing, ""), frame(text, "ignored")}, []string{"close:1005:"}, 0},
		{"close with reason", [][]byte{code(1000, "bye €")}, []string{"close:1000:bye €"}, 0},
		{"close within a message", [][]byte{frame(textPart, "a"), code(1001, "")}, []string{"close:1001:"}, 0},
		{"garbage after close", [][]byte{code(1000, ""), raw(0xff, 0xff, 0xff)}, []string{"close:1000:"}, 0},

		{"invalid UTF-8", [][]byte{frame(text, "ok"), frame(text, "\xce\xba\xff")}, []string{"1:ok"}, 1007},
		{"invalid UTF-8 over fragments", [][]byte{frame(textPart, "\xe2\x82"), frame(cont, "x")}, nil, 1007},
		{"truncated character", [][]byte{frame(text, "\xe2\x82")}, nil, 1007},
		{"surrogate", [][]byte{frame(text, "\xed\xa0\x80")}, nil, 1007},
		{"beyond the last code point", [][]byte{frame(text, "\xf4\x90\x80\x80")}, nil, 1007},
		{"overlong character", [][]byte{frame(text, "\xc0\xaf")}, nil, 1007},
		{"invalid UTF-8 in a close reason", [][]byte{code(1000, "\xff")}, nil, 1007},
		{"half a close code", [][]byte{frame(closing, "\x03")}, nil, 1002},
		{"reserved bit 1", [][]byte{frame(text|0x40, "x")}, nil, 1002},
		{"reserved bit 2", [][]byte{frame(text|0x20, "x")}, nil, 1002},
		{"reserved bit 3 on a ping", [][]byte{frame(ping|0x10, "")}, nil, 1002},
		{"continuation of nothing", [][]byte{frame(cont, "x")}, nil, 1002},
		{"continuation after a whole message", [][]byte{frame(text, "x"), frame(contPt, "x")}, []string{"1:x"}, 1002},
		{"message within a message", [][]byte{frame(textPart, "x"), frame(text, "y")}, nil, 1002},
		{"fragmented ping", [][]byte{frame(9, "x")}, nil, 1002},
		{"fragmented close", [][]byte{frame(8, "")}, nil, 1002},
		{"long ping", [][]byte{frame(ping, long[:126])}, nil, 1002},
		{"no mask", [][]byte{raw(text, 1, 'x')}, nil, 1002},
		{"16-bit length for 125", [][]byte{raw(bin, maskBit|len16, 0, 125)}, nil, 1002},
		{"64-bit length for 65535", [][]byte{raw(bin, maskBit|len64, 0, 0, 0, 0, 0, 0, 0xff, 0xff)}, nil, 1002},
		{"64-bit length with the highest bit", [][]byte{raw(bin, maskBit|len64, 0x80, 0, 0, 0, 0, 1, 0, 0)}, nil, 1002},
		{"too long", [][]byte{raw(bin, maskBit|len64, 0, 0, 0, 0, 0, 1, 0x86, 0xa1)}, nil, 1009},
		{"absurdly long", [][]byte{raw(bin, maskBit|len64, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)}, nil, 1009},
		{"too long in sum", [][]byte{frame(binPart, long), frame(cont, long[:30_001])}, nil, 1009},
		{"as long as may be", [][]byte{frame(binPart, long), frame(cont, long[:30_000])}, []string{"2:xxxxxxxx…(100000)"}, 0},
	}
	for _, op := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		cases = append(cases, struct {
			name string
			in   [][]byte
			want []string
			code uint16
		}{fmt.Sprintf("opcode %d", op), [][]byte{frame(finBit|op, "")}, nil, 1002})
	}
	for _, c := range []uint16{0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		cases = append(cases, struct {
			name string
			in   [][]byte
			want []string
			code uint16
		}{fmt.Sprintf("close code %d", c), [][]byte{code(c, "")}, nil, 1002})
	}
	for _, c := range []uint16{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		cases = append(cases, struct {
			name string
			in   [][]byte
			want []string
			code uint16
		}{fmt.Sprintf("close code %d", c), [][]byte{code(c, "r")}, []string{fmt.Sprintf("close:%d:r", c)}, 0})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := bytes.Join(c.in, nil)
			for _, piece := range []int{1, 2, 3, 7, 1000, max(len(in), 1)} {
				p, got := Parser{MaxMessage: 100_000}, &record{}
				err := feed(&p, in, piece, got)
				if !slices.Equal(got.got, c.want) {
					t.Fatalf("in pieces of %d: got %q, want %q", piece, got.got, c.want)
				}
				var ce *CloseError
				if errors.As(err, &ce) != (c.code != 0) || ce != nil && ce.Code != c.code {
					t.Fatalf("in pieces of %d: error %v, want close code %d", piece, err, c.code)
				}
			}
		})
	}
}

func TestFeedStopsWhenTheSinkWantsNoMore(t *testing.T) {
	a, b := frame(finBit|1, "a"), frame(finBit|1, "b")
	p, s := Parser{}, &record{stop: true}
	used, err := p.Feed(append(bytes.Clone(a), b...), s)
	if err != nil || used != len(a) || !slices.Equal(s.got, []string{"1:a"}) {
		t.Fatalf("used %d of %d (%v) for %q, want to stop after the first message", used, len(a)+len(b), err, s.got)
	}
	if _, err := p.Feed(b, s); err != nil || !slices.Equal(s.got, []string{"1:a", "1:b"}) {
		t.Fatalf("got %q (%v) after going on", s.got, err)
	}
}

func TestParserKeepsNothingBetweenMessages(t *testing.T) {
	p := Parser{}
	if err := feed(&p, append(frame(1, "abc"), frame(finBit, "def")...), 5, &record{}); err != nil {
		t.Fatal(err)
	}
	if p.msg != nil || !p.Idle() {
		t.Errorf("the parser keeps %d bytes", cap(p.msg))
	}
}

func TestDeclaredLengthReservesNothing(t *testing.T) {
	p := Parser{}
	head := frame(finBit|2, strings.Repeat("x", 1<<20))[:14+10]
	if _, err := p.Feed(head, &record{}); err != nil {
		t.Fatal(err)
	}
	if cap(p.msg) > 64 {
		t.Errorf("%d bytes set aside for 10 that came", cap(p.msg))
	}
}

func TestUnmaskMatchesByteByByte(t *testing.T) {
	key := uint32(0xddccbbaa)
	for n := range 100 {
		b, want := make([]byte, n), make([]byte, n)
		for i := range want {
			b[i] = byte(i * 7)
			want[i] = b[i] ^ byte(key>>(8*(i%4)))
		}
		next := unmask(b, key)
		if !bytes.Equal(b, want) {
			t.Fatalf("%d bytes: %x, want %x", n, b, want)
		}
		if byte(next) != byte(key>>(8*(n%4))) {
			t.Fatalf("%d bytes: the key goes on with %x", n, byte(next))
		}
	}
}

func TestCloseFrameFitsAndEndsOnACharacter(t *testing.T) {
	b := AppendClose(nil, CodePolicyViolation, strings.Repeat("€", 60))
	if len(b) != 2+2+123 || b[1] != 125 {
		t.Errorf("%d bytes, payload %d, want 41 whole characters", len(b), b[1])
	}
	if b := AppendClose(nil, CodeNoStatus, "no"); !bytes.Equal(b, []byte{0x88, 0}) {
		t.Errorf("a close without status is % x", b)
	}
}

// count is a sink that only counts.
type count struct{ n int }

func (c *count) Message(Opcode, []byte) bool { c.n++; return true }
func (c *count) Ping([]byte)                 {}
func (c *count) Pong([]byte)                 {}
func (c *count) CloseFrame(uint16, string)   {}

func BenchmarkFeed(b *testing.B) {
	for _, size := range []int{60, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			in := frame(finBit|2, strings.Repeat("x", size))
			p, s := Parser{}, &count{}
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := p.Feed(in, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
