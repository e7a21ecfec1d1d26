package grpcgate

import (
	"bytes"
	"encoding/binary"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestParseTimeout(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"1S": time.Second, "99999999m": 99999999 * time.Millisecond, "5u": 5 * time.Microsecond, "7n": 7, "2M": 2 * time.Minute,
		"3H": 3 * time.Hour, "99999999H": 1<<63 - 1, "0S": 0,
	} {
		if got, ok := parseTimeout(in); !ok || got != want {
			t.Errorf("%s is %v, %t; want %v", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "S", "1", "1s", "-1S", "+1S", "123456789S", "1.5S", " 1S"} {
		if got, ok := parseTimeout(in); ok {
			t.Errorf("%q passes as %v", in, got)
		}
	}
}

func TestStatusMessageIsPercentEncodedAndBounded(t *testing.T) {
	if got := percentEncode("50 % ö\n"); got != "50 %25 %C3%B6%0A" {
		t.Errorf("got %q", got)
	}
	long := statusFields(nil, status.New(codes.Internal, strings.Repeat("ö", 5000)))
	text, err := url.PathUnescape(long[1].Value)
	if err != nil || !utf8.ValidString(text) || len(text) > maxStatusMessage {
		t.Errorf("a long message becomes %d bytes, valid %t, %v", len(text), utf8.ValidString(text), err)
	}
}

func TestForbiddenMetadataIsLeftOut(t *testing.T) {
	got := appendMetadata(nil, metadata.MD{
		"grpc-status": {"0"}, "content-type": {"text/html"}, "x bad": {"v"}, "X-Upper": {"v"}, "x-line": {"a\r\nset-cookie: b"}, "x-bin": {"\r\n"},
	})
	names := map[string]string{}
	for _, f := range got {
		names[f.Name] = f.Value
	}
	if len(names) != 2 || names["x-upper"] != "v" || names["x-bin"] != "DQo" {
		t.Errorf("sent are %v", names)
	}
}

func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

func TestAnnouncedLengthAllocatesNothing(t *testing.T) {
	var d deframer
	if _, _, ok, err := d.next([]byte{0, 0, 0x40, 0, 0, 'x'}, 4<<20); ok || err != nil {
		t.Fatalf("%t, %v", ok, err)
	}
	if cap(d.buf) > 1024 {
		t.Errorf("one byte of an announced 4 MiB costs %d", cap(d.buf))
	}
	if _, _, _, err := (&deframer{}).next([]byte{0, 0, 0x40, 0, 1}, 4<<20); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one byte over the limit: %v", err)
	}
}

// FuzzDeframe cuts a stream of bytes into pieces of any size: the messages must not depend on the cuts.
func FuzzDeframe(f *testing.F) {
	f.Add(append(framed([]byte("hello")), framed(nil)...), uint8(3))
	f.Add(append(framed(bytes.Repeat([]byte("x"), 300)), 1, 0, 0, 0, 9, 'a'), uint8(100))
	f.Add([]byte{2, 0, 0, 0, 0}, uint8(0))
	f.Add([]byte{0, 0xff, 0, 0, 0}, uint8(4))
	const limit = 1000
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		whole, wholeErr := deframe(&deframer{}, b, limit)
		var d deframer
		var parts []string
		var partsErr error
		for rest := b; len(rest) > 0 && partsErr == nil; {
			n := min(int(piece)+1, len(rest))
			var got []string
			got, partsErr = deframe(&d, rest[:n], limit)
			parts, rest = append(parts, got...), rest[n:]
			if len(d.buf) > limit+messageHead {
				t.Fatalf("keeps %d bytes", len(d.buf))
			}
		}
		if strings.Join(whole, "|") != strings.Join(parts, "|") || len(whole) != len(parts) || status.Code(wholeErr) != status.Code(partsErr) {
			t.Fatalf("whole: %q, %v; in pieces: %q, %v", whole, wholeErr, parts, partsErr)
		}
	})
}

func deframe(d *deframer, b []byte, limit int) (out []string, err error) {
	for {
		m, rest, ok, err := d.next(b, limit)
		if err != nil || !ok {
			return out, err
		}
		out = append(out, string(m.b))
		b = rest
	}
}
