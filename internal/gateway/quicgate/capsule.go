package quicgate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/quic-go/quic-go/quicvarint"
)

const (
	dataFrame           = 0x00   // of HTTP/3
	capsuleClose uint64 = 0x2843 // WT_CLOSE_SESSION: a code of four bytes and a text
	mostReason          = 1024   // bytes of the text
)

var errCapsule = errors.New("the close of the session has a wrong length")

// closeCapsule encodes WebTransport's end of a session, in a DATA frame of HTTP/3.
func closeCapsule(code uint32, why string) []byte {
	why = why[:min(len(why), mostReason)]
	b := quicvarint.Append(nil, capsuleClose)
	b = quicvarint.Append(b, uint64(4+len(why)))
	b = append(binary.BigEndian.AppendUint32(b, code), why...)
	return append(quicvarint.Append([]byte{dataFrame}, uint64(len(b))), b...)
}

// watch reads the client's direction of the request's stream, until the client closes the session there. It waits with a small stack and
// buffer, because most clients never send anything.
func (c *conn) watch() {
	first := make([]byte, 1)
	n, err := c.wt.Read(first)
	var code uint32
	var why string
	switch {
	case n > 0:
		code, why, err = readClose(io.MultiReader(bytes.NewReader(first), c.wt))
	case errors.Is(err, io.EOF):
		err = nil
	}
	c.left(code, why, err)
}

// readClose skips capsules until the one that closes the session, or the end of the stream, which closes it too (code 0).
func readClose(str io.Reader) (code uint32, why string, err error) {
	r := quicvarint.NewReader(&payload{str: quicvarint.NewReader(str)})
	for {
		kind, err := quicvarint.Read(r)
		if errors.Is(err, io.EOF) {
			return 0, "", nil
		}
		size, wrong := quicvarint.Read(r)
		switch {
		case err != nil || wrong != nil:
			return 0, "", errors.Join(err, wrong)
		case kind != capsuleClose:
			if _, err := io.CopyN(io.Discard, r, int64(size)); err != nil { // a varint of QUIC has 62 bits
				return 0, "", err
			}
			continue
		case size < 4 || size > 4+mostReason:
			return 0, "", errCapsule
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(r, b); err != nil {
			return 0, "", err
		}
		return binary.BigEndian.Uint32(b), string(bytes.ToValidUTF8(b[4:], []byte("\uFFFD"))), nil
	}
}

// payload reads what the DATA frames of a stream hold, and skips other frames.
type payload struct {
	str  quicvarint.Reader
	left uint64 // of the DATA frame that has begun
}

// Read implements io.Reader. io.EOF is the end of the stream between two frames.
func (p *payload) Read(b []byte) (int, error) {
	for p.left == 0 {
		kind, err := quicvarint.Read(p.str)
		if err != nil {
			return 0, err
		}
		size, err := quicvarint.Read(p.str)
		if err != nil {
			return 0, cut(err)
		}
		if kind == dataFrame {
			p.left = size
		} else if _, err := io.CopyN(io.Discard, p.str, int64(size)); err != nil { // a varint of QUIC has 62 bits
			return 0, cut(err)
		}
	}
	n, err := p.str.Read(b[:min(uint64(len(b)), p.left)])
	p.left -= uint64(n) // not negative
	if n == 0 && err != nil {
		return 0, cut(err)
	}
	return n, nil
}

// cut returns the error for an end within a frame.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
