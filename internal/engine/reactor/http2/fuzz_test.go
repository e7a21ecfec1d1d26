package http2

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// FuzzFrames sends arbitrary bytes after the preface, in pieces. The input also determines when the handler answers and pauses. Nothing may
// panic, the counters must be consistent, and every stream must end exactly once.
func FuzzFrames(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s, uint8(7))
		f.Add(s, uint8(255))
	}
	f.Fuzz(func(t *testing.T, frames []byte, piece uint8) {
		h := &recorder{open: func(r *recorded) {
			if strings.HasSuffix(r.headers.Path, "now") {
				r.WriteHeaders(hpack.HeaderField{Name: ":status", Value: "200"})
				r.WriteMessage([]byte("he"), []byte("llo"))
			}
		}}
		l := silentLink(t, NewServer(Config{MaxStreams: 20, StreamQueueBytes: 100}, h))
		l.in.WriteString(preface)
		l.send()
		for len(frames) > 0 {
			n := min(int(piece)+1, len(frames))
			l.in.Write(frames[:n])
			frames = frames[n:]
			l.send()
			for _, s := range h.streams {
				respond(s)
			}
			l.drain()
		}
		check(t, l)
		l.conn.Closed(errors.New("gone"))
		for i, s := range h.streams {
			if !s.closed {
				t.Fatalf("stream %d was never closed", i)
			}
		}
		if l.conn.open != 0 || l.conn.waiting != 0 || l.conn.queued != 0 || l.conn.srv.Queued() != 0 {
			t.Fatalf("left over: %d streams, %d queues, %d bytes", l.conn.open, l.conn.waiting, l.conn.queued)
		}
	})
}

func respond(s *recorded) {
	switch {
	case s.closed:
	case s.half:
		s.Write(nil, s.data.Bytes())
		s.WriteTrailers(hpack.HeaderField{Name: "grpc-status", Value: "0"})
	case s.data.Len()%5 == 1:
		s.Pause()
	case s.data.Len()%5 == 2:
		s.Resume()
	case s.data.Len()%7 == 3:
		s.Reset(Cancel, "enough")
	}
}

// check compares the counters with the streams, and parses what the server has written.
func check(t *testing.T, l *link) {
	open, waiting, bytes := uint16(0), uint16(0), 0
	for s := range l.conn.all() {
		open++
		if s.out != nil {
			waiting++
			bytes += s.out.bytes
		}
		if s.recvWin < 0 || s.credit < 0 {
			t.Fatalf("stream %d has a window of %d and a credit of %d", s.id, s.recvWin, s.credit)
		}
	}
	if open != l.conn.open || waiting != l.conn.waiting || bytes != int(l.conn.queued) || l.conn.recvWin < 0 && !l.closing {
		t.Fatalf("%d streams, %d waiting with %d bytes; accounted are %d, %d, %d; window %d",
			open, waiting, bytes, l.conn.open, l.conn.waiting, l.conn.queued, l.conn.recvWin)
	}
	l.client.AllowIllegalReads = true
	for l.next() != nil {
	}
}

// FuzzHeaderBlock decodes each header block twice with one decoder, as a connection with a table would.
func FuzzHeaderBlock(f *testing.F) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/a/b"}, {"x-long", strings.Repeat("v", 300)}, {"te", "trailers"}} {
		if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.Bytes(), []byte{0x82, 0x86, 0xbe, 0xbf})
	f.Add([]byte{0x3f, 0xe1, 0x1f, 0x82}, []byte{0x20, 0x84})
	f.Add(EncodeBlock(fieldsOf(":status", "200", "content-type", "application/grpc", "grpc-message", "x")...), []byte{0x80})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := newDecoder(headerTable)
		defer d.free()
		for _, block := range [][]byte{first, second} {
			err := d.decode(block)
			total := 0
			for _, h := range d.h.Fields {
				total += int(h.Size())
			}
			if total > maxHeaderList {
				t.Fatalf("kept %d bytes of headers", total)
			}
			if err == nil && d.bad == "" && (d.h.Path == "" || d.h.Method == "") {
				t.Fatal("a request without path or method passes")
			}
			for _, h := range d.h.Fields {
				if d.bad == "" && (strings.ContainsAny(h.Value, "\r\n\x00") || strings.ToLower(h.Name) != h.Name) {
					t.Fatalf("field %q: %q passes", h.Name, h.Value)
				}
			}
			if err != nil {
				return
			}
		}
	})
}

func fieldsOf(pairs ...string) (out []hpack.HeaderField) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

// seeds returns conversations that cover the handling of every frame type.
func seeds(f *testing.F) [][]byte {
	var out [][]byte
	for _, talk := range []func(w *wire.Framer, block func(path string) []byte){
		func(w *wire.Framer, block func(string) []byte) {
			w.WriteHeaders(wire.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: block("/now")})
			w.WriteData(1, false, []byte("hello"))
			w.WriteWindowUpdate(1, 5)
			w.WriteDataPadded(1, true, []byte("end"), make([]byte, 9))
		},
		func(w *wire.Framer, block func(string) []byte) {
			b := block("/x")
			w.WriteHeaders(wire.HeadersFrameParam{StreamID: 3, PadLength: 3, Priority: wire.PriorityParam{StreamDep: 1}, BlockFragment: b[:4]})
			w.WriteContinuation(3, true, b[4:])
			w.WritePing(false, [8]byte{1})
			w.WriteRSTStream(3, wire.ErrCodeCancel)
			w.WritePriority(3, wire.PriorityParam{StreamDep: 5})
			w.WriteGoAway(0, wire.ErrCodeNo, nil)
		},
		func(w *wire.Framer, block func(string) []byte) {
			w.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 3}, wire.Setting{ID: wire.SettingMaxFrameSize, Val: 20000})
			w.WriteSettingsAck()
			for i := range uint32(12) {
				w.WriteHeaders(wire.HeadersFrameParam{StreamID: 2*i + 1, EndHeaders: true, EndStream: i%2 == 0, BlockFragment: block("/now")})
			}
			w.WriteData(3, false, []byte("abcdef"))
			w.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 1000})
			w.WriteHeaders(wire.HeadersFrameParam{StreamID: 3, EndHeaders: true, EndStream: true, BlockFragment: []byte{0, 1, 'a', 1, 'b'}})
		},
	} {
		var b, hb bytes.Buffer
		w := wire.NewFramer(&b, nil)
		w.AllowIllegalWrites = true
		e := hpack.NewEncoder(&hb)
		if err := w.WriteSettings(); err != nil {
			f.Fatal(err)
		}
		talk(w, func(path string) []byte {
			hb.Reset()
			for _, h := range fieldsOf(":method", "POST", ":scheme", "http", ":path", path, "content-type", "application/grpc") {
				if err := e.WriteField(h); err != nil {
					f.Fatal(err)
				}
			}
			return bytes.Clone(hb.Bytes())
		})
		out = append(out, b.Bytes())
	}
	return out
}
