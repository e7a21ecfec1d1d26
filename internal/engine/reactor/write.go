package reactor

import (
	"errors"
	"sync"
)

// errAgain is the result of writing to a full socket or reading from an empty one.
var errAgain = errors.New("the socket is not ready")

// flushSize is how many bytes one connection may send before the other connections of its loop get their turn.
const flushSize = 1 << 20

// Write sends head, then tail. Bytes that the socket does not accept are queued: head is borrowed until Write returns and copied if needed,
// tail must never change. False means that nothing was accepted: the queue would exceed Config.QueueBytes (Drained will be called), or the
// connection is closing or its peer gone. An empty queue accepts one write of any size.
func (c *Conn) Write(head, tail []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state&(dead|closing|deaf) != 0 {
		return false
	}
	n := len(head) + len(tail)
	if c.out != nil && (c.out.n+n > c.loop.r.cfg.QueueBytes || c.loop.r.budget.Full()) {
		c.state |= refused
		return false
	}
	if c.tls != nil {
		c.writeTLS(head, tail)
	} else {
		c.send(head, tail)
	}
	return c.state&(dead|deaf) == 0
}

// send writes head and tail to the socket or the queue, or leaves them to Uncork. c.mu is held.
func (c *Conn) send(head, tail []byte) {
	if !c.collect(head, tail) && c.state&dead == 0 {
		c.sendNow(head, tail)
	}
}

// sendNow writes head and tail to the socket or to the queue. c.mu is held.
func (c *Conn) sendNow(head, tail []byte) {
	if c.state&deaf != 0 {
		return
	}
	n := 0
	if c.out == nil {
		var err error
		n, err = c.sysWrite(head, tail)
		if err != nil && !errors.Is(err, errAgain) {
			c.cut(err)
			return
		}
		c.loop.bytesOut.Add(uint64(n))
		if n == len(head)+len(tail) {
			return
		}
		c.out = &queue{}
		c.loop.queueBegun(c)
	}
	before := c.out.n
	if n < len(head) {
		c.out.copyIn(head[n:])
		c.out.share(tail)
	} else {
		c.out.share(tail[n-len(head):])
	}
	c.loop.r.charge(c.out.n - before)
	c.watch()
}

// joined holds buffers in which a short head and its tail are joined, for one TLS record or one system call.
var joined = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

// writeTLS encrypts head and tail; the ciphertext comes back through tlsLayer.Write. c.mu is held.
func (c *Conn) writeTLS(head, tail []byte) {
	parts := [2][]byte{head, tail}
	if n := len(head) + len(tail); len(head) > 0 && len(tail) > 0 && n <= 16<<10 {
		buf, _ := joined.Get().(*[]byte)
		defer joined.Put(buf)
		*buf = append(append((*buf)[:0], head...), tail...)
		parts = [2][]byte{*buf, nil}
	}
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		if _, err := c.tls.conn.Write(p); err != nil {
			c.die(err)
			return
		}
	}
}

// flush sends the queue. c.mu is held. True means that the socket is full and the caller must wait until it accepts more.
func (c *Conn) flush() (full bool) {
	for sent := 0; c.out != nil && sent < flushSize; {
		n, err := c.sysWritev(c.out.bufs)
		if err != nil {
			if !errors.Is(err, errAgain) {
				c.cut(err)
				return false
			}
			return true
		}
		sent += n
		c.sent(n)
	}
	return false
}

// sent takes n bytes off the queue. c.mu is held.
func (c *Conn) sent(n int) {
	c.loop.bytesOut.Add(uint64(n))
	c.loop.r.charge(-n)
	c.out.drop(n)
	if c.out.n == 0 {
		c.dropQueue()
	}
}

// dropQueue discards the queued bytes. c.mu is held.
func (c *Conn) dropQueue() {
	if c.out == nil {
		return
	}
	c.loop.r.charge(-c.out.n)
	c.out = nil
	c.loop.queueEmpty(c)
}

// flushed runs on the loop when the queue has become empty.
func (c *Conn) flushed() {
	c.mu.Lock()
	if c.out != nil || c.state&(dead|deaf) != 0 {
		c.mu.Unlock()
		return
	}
	c.state &^= refused
	isClosing := c.state&closing != 0
	if isClosing {
		c.halfClose()
	}
	c.mu.Unlock()
	if !isClosing && c.h != nil {
		c.h.Drained()
	}
}
