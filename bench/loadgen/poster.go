package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
)

// posters is the number of connections that carry the acknowledgements of all SSE subscribers of a process.
const posters = 32

// poster sends requests over a few connections. It ignores their answers unless they report an error.
type poster struct {
	host   string
	failed func(error)

	mu    sync.Mutex
	idle  []*postConn
	queue [][]byte
}

func newPoster(ctx context.Context, d *dialer, t Target, failed func(error)) (*poster, error) {
	p := &poster{host: t.HTTP, failed: failed}
	ready := make(chan *postConn, posters)
	for i := range posters {
		pc := &postConn{p: p}
		err := d.dial(ctx, t.HTTP, i, 0, func(c *reactor.Conn) reactor.Handler {
			pc.conn = c
			ready <- pc
			return pc
		})
		if err != nil {
			return nil, fmt.Errorf("connect for acknowledgements: %w", err)
		}
	}
	for range posters {
		p.idle = append(p.idle, <-ready)
	}
	return p, nil
}

// ack posts an ack frame for a session.
func (p *poster) ack(session string, ids [][]byte) {
	body := fmt.Appendf(nil, `{"session":"%s","frames":[%s]}`, session, ackJSON(ids))
	req := fmt.Appendf(nil, "POST /v1/frames HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", p.host, len(body), body)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		pc := p.idle[n-1]
		p.idle = p.idle[:n-1]
		pc.conn.Write(req, nil)
		return
	}
	p.queue = append(p.queue, req)
}

// postConn is one connection of a poster.
type postConn struct {
	p    *poster
	conn *reactor.Conn
}

var _ reactor.Handler = (*postConn)(nil)

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
	if len(c.p.queue) > 0 {
		c.conn.Write(c.p.queue[0], nil)
		c.p.queue = c.p.queue[1:]
	} else {
		c.p.idle = append(c.p.idle, c)
	}
	return n, nil
}

// Drained implements reactor.Handler.
func (c *postConn) Drained() {}

// Tick implements reactor.Handler.
func (c *postConn) Tick(time.Time) {}

// Closed implements reactor.Handler.
func (c *postConn) Closed(err error) {
	if !errors.Is(err, reactor.ErrReactorClosed) {
		c.p.failed(fmt.Errorf("a connection for acknowledgements ended: %w", err))
	}
}
