package reactor

import (
	"errors"
	"io"
)

// begin runs on the loop: it makes the handler, hands it the bytes that were read earlier, and starts to watch the socket. The order
// matters: bytes in the TLS session or in buffers raise no event.
func (c *Conn) begin() {
	s := c.start
	c.loop.add(c)
	h, err := s.open(c)
	c.start = nil
	if err != nil {
		c.finish(err)
		return
	}
	c.h = h
	c.mu.Lock()
	if s.by != 0 && len(s.buffered) == 0 && c.state&(dead|closing|deaf) == 0 {
		c.state |= silent
		c.limitAt = s.by
		c.armTimer()
	}
	c.corkLocked()
	c.mu.Unlock()
	c.in = s.buffered
	c.present()
	if c.tls != nil {
		c.decrypt(&c.loop.buf, nil)
	}
	c.Uncork()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attach()
}

// attach has the poller watch the socket. c.mu is held.
func (c *Conn) attach() {
	if c.state&(attached|dead) != 0 {
		return
	}
	if err := c.loop.poll.attach(c); err != nil {
		c.die(err)
		return
	}
	c.state |= attached
}

// receive handles the n raw bytes that follow the headroom in s.raw. It runs on the loop.
func (c *Conn) receive(s *scratch, n int) {
	c.loop.bytesIn.Add(uint64(n))
	c.mu.Lock()
	st := c.state
	if st&silent != 0 {
		c.state &^= silent
		if st&(closing|deaf) == 0 {
			c.limitAt = 0
			c.armTimer()
		}
	}
	wanted := st&(dead|closing) == 0
	if wanted {
		c.corkLocked()
	}
	if st&paused != 0 {
		c.state |= stalled
	}
	c.mu.Unlock()
	switch {
	case !wanted: // nobody wants it any more
		return
	case c.tls != nil:
		c.decrypt(s, s.raw[headroom:headroom+n])
	case st&paused != 0: // the pause began after the wait for this input
		c.in = append(c.in, s.raw[headroom:headroom+n]...)
	default:
		c.deliver(s.raw[:headroom+n])
	}
	c.mu.Lock()
	c.settle()
	c.uncorkLocked()
	c.mu.Unlock()
}

// deliver hands the handler the kept bytes, followed by the bytes behind b's headroom.
func (c *Conn) deliver(b []byte) {
	data := b[headroom:]
	switch kept := len(c.in); {
	case kept == 0:
	case kept <= headroom:
		data = b[headroom-kept:]
		copy(data, c.in)
	default: // a long frame: collect it in c.in, which doubles when it is full
		c.in = append(c.in, data...)
		c.present()
		return
	}
	used, err := c.h.Data(data)
	if err != nil {
		c.fail(err)
		return
	}
	c.keep(data[used:])
}

// present hands the kept bytes to the handler.
func (c *Conn) present() {
	if len(c.in) == 0 || !c.listening() {
		return
	}
	used, err := c.h.Data(c.in)
	if err != nil {
		c.fail(err)
		return
	}
	c.keep(c.in[used:])
}

// keep stores the bytes that the handler has not used. rest may be a part of c.in.
func (c *Conn) keep(rest []byte) {
	if len(rest) == 0 {
		c.in = nil
		return
	}
	c.in = append(c.in[:0], rest...)
	if len(rest) > c.loop.r.cfg.InputBytes && c.listening() {
		c.fail(ErrInputTooLong)
	}
}

// listening reports whether the handler takes bytes now.
func (c *Conn) listening() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state&(dead|closing|paused) == 0
}

// resume runs on the loop after Resume: the handler first gets the kept bytes, then new input.
func (c *Conn) resume(s *scratch) {
	if c.h == nil {
		return
	}
	c.mu.Lock()
	c.state &^= resuming
	c.corkLocked()
	c.mu.Unlock()
	c.present()
	if c.tls != nil && c.listening() {
		c.decrypt(s, nil)
	}
	c.Uncork()
	c.mu.Lock()
	c.attach() // after hungUp
	c.watch()
	c.mu.Unlock()
}

// fail ends the connection because its handler cannot go on. A handler that has a last message sends it and calls CloseAfterFlush itself.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	c.die(err)
	c.mu.Unlock()
}

// inputEnded runs on the loop when the peer has sent its last byte, or reading failed. A peer that has only closed its
// side still gets the queued bytes.
func (c *Conn) inputEnded(err error) {
	eof := errors.Is(err, io.EOF)
	if e, ok := c.h.(Ender); ok && eof && len(c.in) > 0 && c.listening() {
		e.Ended()
	}
	c.mu.Lock()
	c.release()
	if eof && c.out != nil && c.state&dead == 0 {
		c.state |= ended
		if c.state&closing == 0 {
			c.beginClosing(err)
		}
		c.watch()
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.finish(err)
}
