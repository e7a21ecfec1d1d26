package http2

import (
	"context"
	"errors"
	"time"
)

// arm schedules Tick after d, unless it is due earlier. Caller holds mu.
func (c *Conn) arm(d time.Duration) {
	d = max(d, time.Millisecond) // 0 would stop the timer
	t := now()
	if at := t.add(d); c.flags&connTimed == 0 || at.until(t) < c.timerAt.until(t) {
		c.timerAt = at
		c.flags |= connTimed
		c.io.SetTimer(d)
	}
}

// Tick handles what is due.
func (c *Conn) Tick(time.Time) {
	c.enter()
	c.mu.Lock()
	c.flags &^= connTimed
	if c.flags&connFailed == 0 {
		c.checkEnds()
		c.checkSilence()
		if c.flags&(connDraining|connDrained) == connDraining && c.checkAt.until(now()) <= 0 {
			c.drained()
		}
	}
	c.mu.Unlock()
	c.leave()
}

// checkEnds resets ended streams that have not drained in time.
func (c *Conn) checkEnds() {
	if c.waiting == 0 {
		return
	}
	t := now()
	for s := range c.all() {
		switch {
		case s.out == nil || !s.out.ending:
		case s.out.closeBy.until(t) <= 0:
			c.resetLocked(s, Cancel, "the client did not read the end of the answer")
		default:
			c.arm(s.out.closeBy.until(t))
		}
	}
}

// checkSilence ends the connection if its peer has been silent for too long. It runs before the first request, and then every KeepAlive.
func (c *Conn) checkSilence() {
	t := now()
	if left := c.checkAt.until(t); left > 0 {
		c.arm(left)
		return
	}
	if c.flags&connDraining != 0 {
		return
	}
	active := c.flags&connActive != 0
	c.flags &^= connActive
	switch {
	case c.flags&connPrefaced == 0:
		c.flags |= connFailed
		c.io.Abort(errNotHTTP2)
		return
	case c.lastID == 0:
		c.failLocked(&ConnError{NoError, "no request in time"})
		return
	case c.dragging():
		c.failLocked(&ConnError{EnhanceYourCalm, "a header block does not end"})
		return
	case active:
	case c.open == 0:
		c.failLocked(&ConnError{NoError, "idle"})
		return
	case c.flags&connPinged != 0:
		c.flags |= connFailed
		c.io.Abort(&ConnError{NoError, "the peer is silent"})
		return
	default:
		c.flags |= connPinged
		c.sendPing(pingKeepAlive)
	}
	c.checkAt = t.add(c.srv.cfg.KeepAlive)
	c.arm(c.srv.cfg.KeepAlive)
}

// dragging reports whether a header block has been incomplete since the previous check. It runs on the loop.
func (c *Conn) dragging() bool {
	if c.in == nil || c.in.block == nil {
		return false
	}
	was := c.in.block.old
	c.in.block.old = true
	return was
}

// pong handles the answer to one of the server's PINGs.
func (c *Conn) pong(payload uint64) error {
	c.mu.Lock()
	c.flags &^= connPinged
	var alive []StreamHandler
	switch {
	case payload == pingProbe && c.flags&connProbed != 0:
		c.flags &^= connProbed
		for s := range c.all() {
			if s.handler != nil {
				alive = append(alive, s.handler)
			}
		}
	case payload == pingDrain && c.flags&connDraining != 0:
		c.drained()
	case payload == pingKeepAlive:
	default: // an answer to nothing
		defer c.mu.Unlock()
		return c.spendLocked(2)
	}
	c.mu.Unlock()
	for _, h := range alive {
		h.Alive()
	}
	return nil
}

// drainGrace is how long requests in transit may take to arrive before the last id is fixed.
const drainGrace = time.Second

var errDraining = errors.New("the server is stopping")

// drain begins a graceful end (RFC 9113, section 6.8): it sends a GOAWAY that refuses nothing, and, once the peer must have received it,
// another one with the last request that is served. Caller holds mu.
func (c *Conn) drain() {
	if c.flags&(connDraining|connFailed) != 0 {
		return
	}
	c.flags |= connDraining
	if c.flags&connPrefaced == 0 {
		c.flags |= connFailed
		c.io.Abort(errDraining)
		return
	}
	c.control(func(b []byte) []byte { return appendGoAway(b, maxWindow, NoError, "draining") })
	c.sendPing(pingDrain)
	c.checkAt = now().add(drainGrace)
	c.arm(drainGrace)
}

// drained sends the second GOAWAY; leave closes the connection when no stream is left.
func (c *Conn) drained() {
	if c.flags&connDrained != 0 {
		return
	}
	c.flags |= connDrained
	c.control(func(b []byte) []byte { return appendGoAway(b, c.lastID, NoError, "draining") })
	c.nudge()
}

func (s *Server) add(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns != nil {
		s.conns.prev = c
	}
	c.next, s.conns = s.conns, c
	s.nconns++
}

func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.prev != nil:
		c.prev.next = c.next
	case s.conns == c:
		s.conns = c.next
	default:
		return
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	if s.nconns--; s.nconns == 0 && s.draining {
		s.idleOnce.Do(func() { close(s.idle) })
	}
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// Shutdown drains every connection: it accepts no new requests, and open ones continue. When ctx ends, it aborts the rest. It returns when
// no connection is left. Create no new connections meanwhile: they would be drained after their preface.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.beginDrain() {
		c.mu.Lock()
		c.drain()
		c.mu.Unlock()
	}
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.list() {
		c.io.Abort(ctx.Err())
	}
	<-s.idle
	return ctx.Err()
}

func (s *Server) beginDrain() []*Conn {
	s.mu.Lock()
	s.draining = true
	if s.nconns == 0 {
		s.idleOnce.Do(func() { close(s.idle) })
	}
	s.mu.Unlock()
	return s.list()
}

func (s *Server) list() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Conn, 0, s.nconns)
	for c := s.conns; c != nil; c = c.next {
		all = append(all, c)
	}
	return all
}
