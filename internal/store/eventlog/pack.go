package eventlog

import (
	"bytes"
	"io"
	"strings"

	"github.com/klauspost/compress/flate"
)

const (
	// packedVersion marks a compressed chunk: the deflated form of the encoded chunk follows.
	packedVersion = 2
	// packLeast is the shortest length at which a chunk is compressed, in bytes.
	packLeast = 256
	// unpackMost limits the size of a decompressed chunk, in bytes: many times the usual size.
	unpackMost = 16 * chunkBytes
)

// Packer compresses encoded chunks. After its first use it holds a megabyte of memory, until Rest. It is not safe for concurrent use.
type Packer struct {
	w    *flate.Writer
	used bool // since the last Rest
}

// Pack returns an encoded chunk compressed as far as that is cheap: a notification's events repeat its name and its recipient. Decode reads
// both forms.
func (p *Packer) Pack(data []byte) []byte {
	if len(data) < packLeast {
		return data
	}
	var b bytes.Buffer
	b.Grow(len(data) / 2)
	b.WriteByte(packedVersion)
	p.used = true
	if p.w == nil {
		p.w, _ = flate.NewWriter(&b, flate.BestSpeed) // fails only for levels that do not exist
	} else {
		p.w.Reset(&b)
	}
	if _, err := p.w.Write(data); err != nil || p.w.Close() != nil || b.Len() >= len(data) { // a buffer takes everything
		return data
	}
	return b.Bytes()
}

// Rest frees the memory if nothing was packed since the previous call.
func (p *Packer) Rest() {
	if !p.used {
		p.w = nil
	}
	p.used = false
}

// unpack undoes Pack. Data that was not packed is returned unchanged.
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
