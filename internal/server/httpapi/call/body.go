package call

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/problem"
)

const (
	firstBuffer = 8 << 10   // holds most publishes without growing
	keepBuffer  = 256 << 10 // larger buffers are left to the garbage collector
	readStep    = 1 << 20   // a large body's buffer grows by at most this much at a time
)

// Buffers lends buffers.
type Buffers struct{ pool sync.Pool }

// Lend lends a buffer; the caller gives it back with Return once nothing refers to it.
func (s *Buffers) Lend() *[]byte {
	if b, ok := s.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, firstBuffer)
	return &b
}

// Return takes a buffer back.
func (s *Buffers) Return(b *[]byte) {
	if cap(*b) <= keepBuffer {
		*b = (*b)[:0]
		s.pool.Put(b)
	}
}

// ReadBody appends the request's body to buf. It refuses more than most bytes; if the client announces them, before it reads anything.
func ReadBody(r *http.Request, buf []byte, most int64) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return buf, problem.UnsupportedEncoding.With("send the body as it is, without Content-Encoding " + notification.Clip(enc))
	}
	if r.ContentLength > most {
		return buf, TooLarge(most)
	}
	if n := int(r.ContentLength); n > 0 {
		buf = slices.Grow(buf, min(n, readStep))
	}
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, min(max(len(buf), 512), readStep))
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > most {
			return buf, TooLarge(most)
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return buf, nil
		}
		if err != nil {
			return buf, bodyError(err)
		}
	}
}

func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return problem.BodyTimeout.New()
	}
	return problem.BodyIncomplete.New()
}
