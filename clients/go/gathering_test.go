package godwit

import (
	"fmt"
	"testing"
)

// writes records the bytes of each write.
type writes []string

func (w *writes) Read([]byte) (int, error) { return 0, nil }
func (w *writes) Close() error             { return nil }
func (w *writes) Write(b []byte) (int, error) {
	*w = append(*w, string(b))
	return len(b), nil
}

func TestFramesOfOneFlushShareAWrite(t *testing.T) {
	var out writes
	g := &gathering{ReadWriteCloser: &out}
	write := func(b []byte) {
		t.Helper()
		if n, err := g.Write(b); n != len(b) || err != nil {
			t.Fatalf("wrote %d of %d bytes, %v", n, len(b), err)
		}
	}
	release := func() {
		t.Helper()
		if err := g.release(); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte("alone"))
	g.hold()
	frame := []byte("a")
	write(frame)
	frame[0] = 'b' // the library encodes the next frame into the same buffer
	write(frame)
	release()
	release()
	write([]byte("alone again"))
	if got := fmt.Sprint(out); got != "[alone ab alone again]" {
		t.Errorf("wrote %s", got)
	}
	out = nil
	g.hold()
	write(make([]byte, maxHeld-1))
	write(make([]byte, 2))
	if len(out) != 1 || len(out[0]) != maxHeld+1 {
		t.Errorf("held back more than %d bytes", maxHeld)
	}
	release()
}
