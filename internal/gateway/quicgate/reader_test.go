package quicgate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// whole splits bytes at once, in the plainest way.
func whole(b []byte) (frames [][]byte, err error) {
	for len(b) > 0 {
		n, used := binary.Uvarint(b)
		switch {
		case used > lengthBytes || used < 0 || used > 0 && n > maxMessage:
			return frames, errTooLarge
		case used == 0:
			var known uint64
			for i, c := range b {
				known |= uint64(c&0x7f) << (7 * i)
			}
			if len(b) >= lengthBytes || known > maxMessage {
				return frames, errTooLarge
			}
			return frames, nil
		case uint64(len(b)-used) < n:
			return frames, nil
		}
		frames = append(frames, b[used:used+int(n)])
		b = b[used+int(n):]
	}
	return frames, nil
}

// split passes bytes on in pieces of a size, and checks that the reader asks for no more memory than twice what has come.
func split(t *testing.T, b []byte, piece int) (frames [][]byte, err error) {
	var r reader
	for len(b) > 0 {
		space := r.space()
		if len(space) == 0 {
			t.Fatal("there is no space for the next bytes")
		}
		n := copy(space, b[:min(piece, len(b))])
		b = b[n:]
		if err := r.took(n, func(f []byte) error { frames = append(frames, bytes.Clone(f)); return nil }); err != nil {
			return frames, err
		}
		if most := max(2*len(r.in), firstSpace); cap(r.in) > most+most/4 { // an allocation is rounded up
			t.Fatalf("%d bytes are held for %d that have come", cap(r.in), len(r.in))
		}
	}
	return frames, nil
}

func framed(frames ...[]byte) (b []byte) {
	for _, f := range frames {
		b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
	}
	return b
}

func TestFramesAreReadHoweverTheyAreCut(t *testing.T) {
	b := framed([]byte("{}"), nil, bytes.Repeat([]byte("a"), 63), bytes.Repeat([]byte("b"), 64), bytes.Repeat([]byte("c"), 65), bytes.Repeat([]byte("d"), 5000), []byte("last"), bytes.Repeat([]byte("e"), maxMessage))
	want, err := whole(b)
	if err != nil || len(want) != 8 {
		t.Fatalf("%d frames, %v", len(want), err)
	}
	for _, piece := range []int{7, 64, 1000, 1 << 20} {
		got, err := split(t, b, piece)
		if err != nil || len(got) != len(want) {
			t.Fatalf("in pieces of %d: %d frames, %v", piece, len(got), err)
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("in pieces of %d, frame %d has %d bytes, want %d", piece, i, len(got[i]), len(want[i]))
			}
		}
	}
}

func TestLongLengthsAreRefusedBeforeTheirBytesCome(t *testing.T) {
	for name, b := range map[string][]byte{
		"a byte too long":      binary.AppendUvarint(nil, maxMessage+1),
		"a length of 64 bits":  binary.AppendUvarint(nil, 1<<63),
		"a length without end": bytes.Repeat([]byte{0x80}, lengthBytes),
	} {
		if got, err := split(t, b, 1); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: %d frames, %v", name, len(got), err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(framed([]byte(`{"ping":{}}`), nil, bytes.Repeat([]byte("x"), 300)), 3)
	f.Add([]byte{0x80, 0x80, 0x80, 0x80, 0x00}, 1)
	f.Add([]byte{0x81, 0x80, 0x60}, 2)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		want, wrong := whole(b)
		got, err := split(t, b, max(piece%100, 1))
		if !errors.Is(err, wrong) || len(got) != len(want) {
			t.Fatalf("%d frames, %v; want %d, %v", len(got), err, len(want), wrong)
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("frame %d is %x, want %x", i, got[i], want[i])
			}
		}
	})
}
