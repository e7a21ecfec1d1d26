package websocket

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"unicode/utf8"
)

// strict is a sink that checks the guarantees of a parser.
type strict struct {
	t *testing.T
	record
}

func (s *strict) Message(op Opcode, p []byte) bool {
	if op != Text && op != Binary {
		s.t.Errorf("a message of opcode %d", op)
	}
	if op == Text && !utf8.Valid(p) {
		s.t.Errorf("text that is not UTF-8: %q", p)
	}
	if len(p) > fuzzMax {
		s.t.Errorf("a message of %d bytes", len(p))
	}
	return s.record.Message(op, p)
}

const fuzzMax = 1000

// FuzzParser checks that no input breaks the parser, and that its results do not depend on how reads cut the input.
func FuzzParser(f *testing.F) {
	f.Add(frame(0x81, "hello"), byte(3))
	f.Add(append(frame(0x01, "hel"), append(frame(0x89, "p"), frame(0x80, "lo")...)...), byte(5))
	f.Add(frame(0x88, "\x03\xe8bye"), byte(2))
	f.Add([]byte{0x82, 0xfe, 0, 125, 1, 2, 3, 4}, byte(1))
	f.Fuzz(func(t *testing.T, in []byte, piece byte) {
		one, many := &strict{t: t}, &strict{t: t}
		pOne, pMany := Parser{MaxMessage: fuzzMax}, Parser{MaxMessage: fuzzMax}
		used, errOne := pOne.Feed(bytes.Clone(in), one)
		if used > len(in) {
			t.Fatalf("used %d of %d bytes", used, len(in))
		}
		var kept []byte
		var errMany error
		for b := range slices.Chunk(bytes.Clone(in), int(piece)+1) {
			kept = append(kept, b...)
			var n int
			if n, errMany = pMany.Feed(kept, many); errMany != nil {
				break
			}
			if kept = bytes.Clone(kept[n:]); len(kept) > maxControl+14 {
				t.Fatalf("%d bytes are left for the reactor to keep", len(kept))
			}
		}
		if !slices.Equal(one.got, many.got) {
			t.Errorf("in one piece %q, in several %q", one.got, many.got)
		}
		if code(errOne) != code(errMany) {
			t.Errorf("in one piece %v, in several %v", errOne, errMany)
		}
	})
}

func code(err error) uint16 {
	var ce *CloseError
	if errors.As(err, &ce) {
		return ce.Code
	}
	return 0
}
