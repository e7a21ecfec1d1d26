package web

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Limits of the rest of a body that is read after its request was refused.
const (
	lingerBytes = 64 << 20
	lingerFor   = 5 * time.Second

	drained = 256 << 10 // bytes of a body that net/http reads by itself
)

// lingering reads on where a handler has answered before it has read a long body. If the server closed the connection while the body still
// comes, the client's system would discard the answer, and the client would learn of a lost connection alone. HTTP/2 has an answer's end of
// its own for that.
func lingering(next http.Handler, d time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		short := r.ContentLength >= 0 && r.ContentLength <= drained
		if r.ProtoMajor != 1 || short || r.Header.Get("Expect") != "" { // who expects 100 Continue sends no body after a refusal
			next.ServeHTTP(w, r)
			return
		}
		body := &whole{ReadCloser: r.Body}
		r.Body = body
		next.ServeHTTP(w, r)
		if body.ended {
			return
		}
		answer := http.NewResponseController(w)
		if answer.Flush() != nil { // the connection is another's
			return
		}
		_ = answer.SetReadDeadline(time.Now().Add(d))
		_, _ = io.CopyN(io.Discard, body.ReadCloser, lingerBytes)
	})
}

// whole notes whether a body was read to its end.
type whole struct {
	io.ReadCloser
	ended bool
}

func (b *whole) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended = true
	}
	return n, err
}
