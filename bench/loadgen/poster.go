package loadgen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
)

// posters is the number of connections that carry the acknowledgements of all SSE subscribers of a process.
const posters = 32

// poster sends requests over a few connections. It ignores their answers unless they report an error. A server closes connections that stay
// silent: others take their place when they are needed.
type poster struct {
	ctx    context.Context // cancels connecting
	dial   dialer
	target Target
	failed func(error)

	mu    sync.Mutex
	open  int // connections, and those that are being opened
	idle  []*postConn
	queue [][]byte
}

func newPoster(ctx context.Context, d *dialer, t Target, failed func(error)) (*poster, error) {
	p := &poster{ctx: ctx, dial: *d, target: t, failed: failed, open: posters}
	ready := make(chan struct{}, posters)
	for range posters {
		if err := p.connect(func() { ready <- struct{}{} }); err != nil {
			return nil, err
		}
	}
	for range posters {
		<-ready
	}
	return p, nil
}

// connect opens one connection, and calls ready once it takes requests.
func (p *poster) connect(ready func()) error {
	err := p.dial.dial(p.ctx, p.target.HTTP, 0, 0, func(c *reactor.Conn) reactor.Handler {
		pc := &postConn{p: p, conn: c}
		p.mu.Lock()
		pc.next()
		p.mu.Unlock()
		ready()
		return pc
	})
	if err != nil {
		return fmt.Errorf("connect for acknowledgements: %w", err)
	}
	return nil
}

// reopen opens a connection if requests wait and some are missing. mu is held.
func (p *poster) reopen() {
	if len(p.queue) == 0 || p.open == posters {
		return
	}
	p.open++
	go func() { // ends when dialing ends or times out; a connection's loop must not block
		if err := p.connect(func() {}); err != nil {
			p.mu.Lock()
			p.open--
			p.mu.Unlock()
			p.failed(err)
		}
	}()
}

// ack posts an ack frame for a session.
func (p *poster) ack(session string, ids [][]byte) {
	body := fmt.Appendf(nil, `{"session":"%s","frames":[%s]}`, session, ackJSON(ids))
	req := fmt.Appendf(nil, "POST /v1/frames HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", p.target.HTTP, len(body), body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, req)
	if n := len(p.idle); n > 0 {
		pc := p.idle[n-1]
		p.idle = p.idle[:n-1]
		pc.next()
		return
	}
	p.reopen()
}

// postConn is one connection of a poster.
type postConn struct {
	p    *poster
	conn *reactor.Conn
}

var _ reactor.Handler = (*postConn)(nil)

// next sends the next request, or waits for one. The poster's mu is held.
func (c *postConn) next() {
	if len(c.p.queue) == 0 {
		c.p.idle = append(c.p.idle, c)
		return
	}
	c.conn.Write(c.p.queue[0], nil) // fails only if the connection is about to end
	c.p.queue = c.p.queue[1:]
}

// Data implements reactor.Handler.
func (c *postConn) Data(b []byte) (int, error) {
	status, body, n, err := httpResponse(b)
	if err != nil || n == 0 {
		return n, err
	}
	if status/100 != 2 {
		c.p.failed(fmt.Errorf("an acknowledgement got HTTP status %d: %.200s", status, body))
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.next()
	return n, nil
}

// Drained implements reactor.Handler.
func (c *postConn) Drained() {}

// Tick implements reactor.Handler.
func (c *postConn) Tick(time.Time) {}

// Closed implements reactor.Handler.
func (c *postConn) Closed(err error) {
	p := c.p
	p.mu.Lock()
	i := slices.Index(p.idle, c)
	if i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.open--
	ours := errors.Is(err, reactor.ErrReactorClosed)
	if !ours {
		p.reopen()
	}
	p.mu.Unlock()
	if i < 0 && !ours {
		p.failed(fmt.Errorf("a connection for acknowledgements ended: %w", err))
	}
}
