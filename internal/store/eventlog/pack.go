package eventlog

import (
	"bytes"
	"compress/flate"
	"io"
	"strings"
	"sync"
)

const (
	// packedVersion begins a chunk that was made smaller; the chunk as it was encoded follows, deflated.
	packedVersion = 2
	// packLeast is how long a chunk must be for it to be worth while.
	packLeast = 512
	// unpackMost bounds what a chunk may grow to when it is read: many times what one has.
	unpackMost = 16 * chunkBytes
)

// packers are lent: each takes a megabyte, which a log at rest does not need.
var packers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(io.Discard, flate.BestSpeed) // fails for levels that there are not
	return w
}}

// Pack returns an encoded chunk in as few bytes as it costs little to have: the events of a notification name it and its recipient
// over and over. Decode reads both.
func Pack(data []byte) []byte {
	if len(data) < packLeast {
		return data
	}
	var b bytes.Buffer
	b.Grow(len(data) / 2)
	b.WriteByte(packedVersion)
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	w.Reset(&b)
	if _, err := w.Write(data); err != nil || w.Close() != nil || b.Len() >= len(data) { // a buffer takes everything
		return data
	}
	return b.Bytes()
}

// unpack undoes Pack. What was not packed stays as it is.
func unpack(data string) (string, error) {
	if data == "" || data[0] != packedVersion {
		return data, nil
	}
	r := flate.NewReader(strings.NewReader(data[1:]))
	b, err := io.ReadAll(io.LimitReader(r, unpackMost+1))
	if err != nil || len(b) > unpackMost || r.Close() != nil {
		return "", ErrDamaged
	}
	return string(b), nil
}
