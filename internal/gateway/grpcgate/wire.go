package grpcgate

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/internal/engine/reactor/http2"
)

// messageHead is the length of a message's prefix: one byte for the compression flag, four for the length.
const messageHead = 5

// deframer cuts a stream of bytes into messages. It keeps one incomplete message; the zero value is ready.
type deframer struct {
	buf []byte // an incomplete message with its prefix
}

// errTooLarge is the error for a message over the limit.
func errTooLarge(n uint64, limit int) error {
	return status.Errorf(codes.ResourceExhausted, "the message has %d bytes; at most %d are allowed", n, limit)
}

// message is one message as received.
type message struct {
	b      []byte
	packed bool // compressed
	owned  bool // false: b is part of the input
}

// next returns the first message of p. If it is incomplete, all of p is stored.
func (d *deframer) next(p []byte, limit int) (m message, rest []byte, ok bool, err error) {
	if len(d.buf) == 0 && len(p) >= messageHead {
		size, err := messageSize(p, limit)
		if err != nil {
			return message{}, nil, false, err
		}
		if end := messageHead + size; len(p) >= end {
			return message{b: p[messageHead:end], packed: p[0] != 0}, p[end:], true, nil
		}
		d.buf = append(d.buf, p...)
		return message{}, nil, false, nil
	}
	p = d.fill(p, messageHead)
	if len(d.buf) < messageHead {
		return message{}, nil, false, nil
	}
	size, err := messageSize(d.buf, limit)
	if err != nil {
		return message{}, nil, false, err
	}
	p = d.fill(p, messageHead+size)
	if len(d.buf) < messageHead+size {
		return message{}, nil, false, nil
	}
	m = message{b: d.buf[messageHead:], packed: d.buf[0] != 0, owned: true}
	d.buf = nil
	return m, p, true, nil
}

// fill moves bytes from p to the buffer until it has n. The buffer grows with the received bytes, not with the announced length.
func (d *deframer) fill(p []byte, n int) []byte {
	take := min(max(n-len(d.buf), 0), len(p))
	d.buf = append(d.buf, p[:take]...)
	return p[take:]
}

// take does the same as next, and charges the stored bytes to the connection.
func (d *deframer) take(s *http2.Stream, p []byte, limit int) (m message, rest []byte, ok bool, err error) {
	before := len(d.buf)
	m, rest, ok, err = d.next(p, limit)
	if !s.Hold(len(d.buf) - before) {
		s.Hold(-before)
		d.buf = nil
		return message{}, nil, false, errHeld
	}
	return m, rest, ok, err
}

// drop forgets what is kept.
func (d *deframer) drop(s *http2.Stream) {
	s.Hold(-len(d.buf))
	d.buf = nil
}

var (
	errHeld   = status.Error(codes.ResourceExhausted, "this connection has too many unfinished or unread messages")
	errPacked = status.Error(codes.Internal, "a message is compressed but grpc-encoding does not say how")
)

func messageSize(prefix []byte, limit int) (int, error) {
	if prefix[0] > 1 {
		return 0, status.Errorf(codes.Internal, "the message's compression flag is %d", prefix[0])
	}
	n := binary.BigEndian.Uint32(prefix[1:])
	if uint64(n) > uint64(limit) {
		return 0, errTooLarge(uint64(n), limit)
	}
	return int(n), nil
}

var inflaters sync.Pool // *gzip.Reader

// inflate unpacks a gzip message, to at most limit bytes.
func inflate(b []byte, limit int) ([]byte, error) {
	src := bytes.NewReader(b)
	z, _ := inflaters.Get().(*gzip.Reader)
	var err error
	if z == nil {
		z, err = gzip.NewReader(src)
	} else {
		err = z.Reset(src)
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the message is not valid gzip: %v", err)
	}
	defer inflaters.Put(z)
	out, err := io.ReadAll(io.LimitReader(z, int64(limit)+1))
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the message is not valid gzip: %v", err)
	}
	if len(out) > limit {
		return nil, errTooLarge(uint64(len(out)), limit)
	}
	return out, nil
}

// parseTimeout reads a grpc-timeout header: up to eight digits and a unit.
func parseTimeout(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	unit, ok := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 63)
	if !ok || err != nil {
		return 0, false
	}
	if int64(n) > int64(1<<63-1)/int64(unit) {
		return 1<<63 - 1, true
	}
	return time.Duration(n) * unit, true
}

// percentEncode writes a grpc-message: printable ASCII except "%" unchanged, other bytes as %XX.
func percentEncode(s string) string {
	plain := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '%' {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
