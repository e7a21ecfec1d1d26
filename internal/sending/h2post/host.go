package h2post

import (
	"context"
	"errors"
	"sync"
	"time"

	"godwit.dev/godwit/internal/sending/foreign"
)

// host is a server with the connections to it. Its lock also guards the connections' state.
type host struct {
	c       *Client
	address string

	mu      sync.Mutex
	conns   []*conn
	dialing int
	waiting []*waiter
	plain   time.Time // until then it counts as a server without HTTP/2
	redial  time.Time // after a failed dial, no other connection is opened before this time
}

// waiter is a message that waits for room on a connection.
type waiter struct {
	ready chan struct{} // closed: look again
	err   error         // or give up
}

// stream is a message on its way. The host's lock guards it until done is closed.
type stream struct {
	req    *Request
	conn   *conn
	id     uint32 // 0: not given out yet
	left   bool   // its writing has begun
	ended  bool   // done is closed
	again  bool   // the server certainly did not process it
	answer Answer
	err    error
	done   chan struct{}
}

// admit queues a message on a connection that has room, and waits for one if necessary.
func (h *host) admit(ctx context.Context, s *stream) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	for {
		if time.Now().Before(h.plain) {
			h.mu.Unlock()
			return ErrUnsuited
		}
		if c := h.roomy(s); c != nil {
			c.queue(s)
			h.mu.Unlock()
			return nil
		}
		if h.small(s) {
			h.mu.Unlock()
			return ErrUnsuited
		}
		if h.dialing == 0 && h.full() && len(h.conns) < h.c.cfg.Conns && !time.Now().Before(h.redial) {
			h.dialing++
			h.c.loops.begin(h.dial)
		}
		w := &waiter{ready: make(chan struct{})}
		h.waiting = append(h.waiting, w)
		h.mu.Unlock()
		select {
		case <-w.ready:
		case <-ctx.Done():
			h.leave(w)
			return ctx.Err()
		}
		if w.err != nil {
			return w.err
		}
		h.mu.Lock()
	}
}

// roomy returns a connection that can accept the message now; nil: none.
func (h *host) roomy(s *stream) *conn {
	size := int64(len(s.req.Body))
	for _, c := range h.conns {
		if !c.draining && c.active < c.maxStreams && c.window >= size && c.streamWindow >= size {
			return c
		}
	}
	return nil
}

// small reports whether some connection's stream window is too small for a message, so that waiting would not help.
func (h *host) small(s *stream) bool {
	for _, c := range h.conns {
		if !c.draining && c.streamWindow < int64(len(s.req.Body)) {
			return true
		}
	}
	return false
}

// full reports whether another connection would help: all present ones carry as many messages as they allow.
func (h *host) full() bool {
	for _, c := range h.conns {
		if !c.draining && c.active < c.maxStreams {
			return false // its window will open
		}
	}
	return true
}

// dial opens one more connection. The dial belongs to no single message: it continues even if the message that caused it stops waiting.
func (h *host) dial() {
	ctx, cancel := context.WithTimeoutCause(context.Background(), h.c.cfg.Timeout, foreign.Own("no connection in time"))
	defer cancel()
	c, err := open(ctx, h)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dialing--
	unwanted := h.c.closed.Load() && len(h.waiting) == 0
	switch {
	case err == nil:
		h.conns = append(h.conns, c)
		c.begin()
	case errors.Is(err, ErrUnsuited):
		h.plain = time.Now().Add(plainFor)
	case len(h.conns) == 0:
		for _, w := range h.waiting {
			w.err = err
		}
	default:
		h.redial = time.Now().Add(redialAfter)
	}
	h.wakeAll()
	if unwanted {
		h.retire()
	}
}

// wakeOne lets one waiting message try again, since there is room for one more. The caller holds h.mu, as for all functions below.
func (h *host) wakeOne() {
	if len(h.waiting) == 0 {
		return
	}
	close(h.waiting[0].ready)
	if h.waiting = h.waiting[1:]; len(h.waiting) == 0 {
		h.waiting = nil
	}
}

func (h *host) wakeAll() {
	for _, w := range h.waiting {
		close(w.ready)
	}
	h.waiting = nil
}

// leave removes a waiting message. If the message was already given room, the next one gets it.
func (h *host) leave(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, other := range h.waiting {
		if other == w {
			h.waiting = append(h.waiting[:i:i], h.waiting[i+1:]...)
			return
		}
	}
	h.wakeOne()
	if h.c.closed.Load() {
		h.retire() // the connection that it was given may be unused now
	}
}

// abandon ends a message whose caller has stopped waiting.
func (h *host) abandon(s *stream, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.ended {
		return
	}
	c := s.conn
	if s.left && c.dead == nil {
		c.queueControl(appendReset(nil, s.id, codeCancel))
	} else if !s.left {
		c.window += int64(len(s.req.Body))
	}
	c.end(s, err)
}

// retire closes the connections that have no message under way.
func (h *host) retire() {
	for _, c := range append([]*conn(nil), h.conns...) {
		c.retire()
	}
}

func (h *host) remove(c *conn) {
	for i, other := range h.conns {
		if other == c {
			h.conns = append(h.conns[:i:i], h.conns[i+1:]...)
			break
		}
	}
	h.wakeAll()
}
