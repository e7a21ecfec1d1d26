package ssegate

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/server/problem"
)

// A stream's client answers no probe. The sign of life is the TCP acknowledgement of the comment, or of bytes before it.
const (
	answerAfter = 250 * time.Millisecond // time to the first check: most round trips are shorter
	lookAgain   = time.Second            // interval of further checks, until the session ends
)

// move transfers a connection of HTTP/1.1 to the reactor.
func (g *Gateway) move(w http.ResponseWriter, client *gateway.PostingClient) {
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 200 OK\r\nConnection: close\r\n")
	_ = w.Header().Write(&head) // a buffer takes everything
	head.WriteString("\r\n")
	s := &stream{client: client, posting: g.cfg.Posting}
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.Closed(err)
		gateway.Fail(w, problem.Internal.With("the connection could not be taken over"))
		return
	}
	buffered, _ := rw.Reader.Peek(rw.Reader.Buffered())
	err = g.cfg.Reactor.Adopt(nc, buffered, func(c *reactor.Conn) reactor.Handler {
		s.conn = c
		client.Attach(s, head.Bytes())
		return s
	})
	if err != nil { // the connection is closed
		s.Closed(err)
	}
}

// stream is a client's connection on the reactor.
type stream struct {
	conn    *reactor.Conn
	client  *gateway.PostingClient
	posting *gateway.PostingClients
	acked   uint32 // count of acknowledged bytes when the last probe was sent
}

var (
	_ reactor.Handler = (*stream)(nil)
	_ gateway.Outlet  = (*stream)(nil)
)

// Data implements reactor.Handler. It ignores all bytes: the client has nothing more to send.
func (s *stream) Data(b []byte) (int, error) { return len(b), nil }

// Drained implements reactor.Handler.
func (s *stream) Drained() {
	sess := s.client.Session()
	sess.Alive()
	sess.Drained()
}

// Tick implements reactor.Handler: a probe may have been acknowledged.
func (s *stream) Tick(time.Time) {
	if count, all := s.conn.Acked(); all || count != atomic.LoadUint32(&s.acked) {
		s.client.Session().Alive()
		return
	}
	s.conn.SetTimer(lookAgain)
}

// Closed implements reactor.Handler.
func (s *stream) Closed(error) {
	s.posting.Remove(s.client)
	s.client.Hangup()
}

// Write implements gateway.Outlet.
func (s *stream) Write(head, tail []byte) bool { return s.conn.Write(head, tail) }

// Queued implements gateway.Outlet.
func (s *stream) Queued() int { return s.conn.Queued() }

// Probe implements gateway.Outlet. If the queue refuses the comment, it holds enough bytes whose acknowledgement is a sign of life.
func (s *stream) Probe() {
	count, _ := s.conn.Acked()
	atomic.StoreUint32(&s.acked, count)
	s.conn.Write(comment, nil)
	s.conn.SetTimer(answerAfter)
}

// CloseAfterFlush implements gateway.Outlet.
func (s *stream) CloseAfterFlush(err error) { s.conn.CloseAfterFlush(err) }

// comment is one line that clients skip.
var comment = []byte(":\n\n")
