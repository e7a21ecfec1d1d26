package quicgate

import "errors"

// A frame on the stream is its length as an unsigned varint and then its bytes.
const (
	maxMessage  = 1536 << 10 // most bytes of a client's frame, as over WebSocket
	lengthBytes = 5          // most bytes of a length
)

// errTooLarge is the error for a length above maxMessage.
var errTooLarge = errors.New("the length of a frame is above the limit")

// reader splits the bytes of a stream into frames. Between two frames it holds only a small buffer, because most connections are idle.
type reader struct {
	small [64]byte
	in    []byte // the bytes of an unfinished frame; nil: none
	size  int    // length of the frame that has begun; -1: its length is not complete
	sum   uint64 // the length so far
	bytes uint8  // of the length so far
}

// firstSpace is the first capacity for a long frame; it doubles with the bytes that have come, so that a client pays for memory with bytes.
const firstSpace = 4 << 10

// space returns where the next bytes of the stream belong.
func (r *reader) space() []byte {
	if !r.long() {
		return r.small[:]
	}
	if cap(r.in)-len(r.in) < len(r.small) {
		grown := make([]byte, len(r.in), min(r.size, max(2*len(r.in), firstSpace)))
		copy(grown, r.in)
		r.in = grown
	}
	return r.in[len(r.in):min(cap(r.in), r.size)]
}

// inside reports whether the bytes of a frame are due, whose length is known.
func (r *reader) inside() bool { return r.bytes == 0 && r.size > 0 }

// long reports whether more bytes of a frame are due than the small buffer holds.
func (r *reader) long() bool { return r.inside() && r.size-len(r.in) > len(r.small) }

// between reports whether no frame has begun.
func (r *reader) between() bool { return r.bytes == 0 && r.size == 0 }

// took handles the first n bytes of the last space, and passes on each complete frame, which is valid until the function returns. An empty frame is
// passed on too. An error of frame or errTooLarge ends the stream.
func (r *reader) took(n int, frame func([]byte) error) error {
	if !r.long() {
		return r.feed(r.small[:n], frame)
	}
	r.in = r.in[:len(r.in)+n]
	if len(r.in) < r.size {
		return nil
	}
	whole := r.in
	r.in, r.size = nil, 0
	return frame(whole)
}

// feed handles bytes.
func (r *reader) feed(b []byte, frame func([]byte) error) error {
	for len(b) > 0 {
		if !r.inside() {
			done, err := r.length(b[0])
			b = b[1:]
			if err != nil {
				return err
			}
			if done && r.size == 0 {
				if err := frame(nil); err != nil {
					return err
				}
			}
			continue
		}
		due := r.size - len(r.in)
		if len(b) < due {
			r.in = append(r.in, b...)
			return nil
		}
		whole := b[:due]
		if len(r.in) > 0 {
			whole = append(r.in, whole...)
		}
		b = b[due:]
		r.in, r.size = nil, 0
		if err := frame(whole); err != nil {
			return err
		}
	}
	return nil
}

// length adds a byte of a length.
func (r *reader) length(b byte) (done bool, err error) {
	r.sum |= uint64(b&0x7f) << (7 * r.bytes)
	r.bytes++
	if r.sum > maxMessage || r.bytes == lengthBytes && b >= 0x80 {
		return false, errTooLarge
	}
	if b >= 0x80 {
		return false, nil
	}
	r.size = int(r.sum) // at most maxMessage
	r.sum, r.bytes = 0, 0
	return true, nil
}
