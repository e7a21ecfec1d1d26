package reactor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// errEOF is io.EOF under a name that the drivers share.
var errEOF = io.EOF

// sock is a connection's additional state in the goroutine driver.
type sock struct {
	serial sync.Mutex // held while the handler runs
	nc     net.Conn
	rc     syscall.RawConn

	reading, flushing bool // whether a goroutine is reading or flushing; under Conn.mu
}

// chanPoller drives each connection with goroutines of its own, which hold no buffer while they wait. Its loop only runs timers and posted
// work.
type chanPoller struct{ signal chan struct{} }

func newChanPoller() *chanPoller { return &chanPoller{signal: make(chan struct{}, 1)} }

func (p *chanPoller) wait(l *loop) error {
	if !l.hasWork() {
		<-p.signal
	}
	return nil
}

func (p *chanPoller) wake() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

func (p *chanPoller) close() {}

func (p *chanPoller) attach(c *Conn) error { return p.update(c) }

// update starts the goroutines that are missing. They end by themselves when they are no longer needed.
func (p *chanPoller) update(c *Conn) error {
	s := c.sock
	if c.wantsInput() && !s.reading {
		s.reading = true
		c.loop.r.wg.Go(c.readLoop)
	}
	if c.wantsOutput() && !s.flushing {
		s.flushing = true
		c.loop.r.wg.Go(c.flushLoop)
	}
	return nil
}

func (p *chanPoller) detach(c *Conn) { _ = c.sock.nc.Close() }

func (p *chanPoller) release(*Conn) (net.Conn, error) {
	return nil, errors.New("release a connection: a goroutine waits on it")
}

// scratches is a pool of read buffers for connections with input.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

// readLoop waits for input and runs the handler on it.
func (c *Conn) readLoop() {
	for {
		c.mu.Lock()
		if !c.wantsInput() || c.state&resuming != 0 {
			c.sock.reading = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		buf, n, err := c.sock.read()
		c.enter()
		if n > 0 {
			c.receive(buf, n)
		}
		if err != nil {
			c.inputEnded(err)
		}
		c.leave()
		if buf != nil {
			scratches.Put(buf)
		}
	}
}

// flushLoop writes the queue whenever the socket accepts more, until the queue is empty.
func (c *Conn) flushLoop() {
	for {
		err := c.sock.flush(c)
		c.mu.Lock()
		if err != nil {
			c.cut(err)
		}
		if !c.wantsOutput() {
			c.sock.flushing = false
			if c.state&dead == 0 {
				c.loop.post(c, workFlushed)
			}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// takeSock moves nc into c for the goroutine driver.
func takeSock(c *Conn, nc net.Conn) error {
	s, fd, err := newSock(nc)
	if err != nil {
		return err
	}
	if err := nc.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("take over a connection: %w", err)
	}
	c.sock, c.fd = s, fd
	return nil
}
