package h2post

import (
	"runtime"
	"strconv"
	"time"

	"golang.org/x/net/http2/hpack"
)

func (c *conn) writeLoop() {
	for range c.wake {
		// Goroutines that are about to post run first, and share this write.
		runtime.Gosched()
		if err := c.flush(); err != nil {
			c.fail(err)
			return
		}
	}
}

// flush writes everything that is ready in one write.
func (c *conn) flush() error {
	if !c.take() {
		return nil
	}
	for _, s := range c.batch {
		c.encode(s)
	}
	clear(c.batch)
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.h.c.cfg.Timeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(c.out)
	if cap(c.out) > keepOut {
		c.out = nil
	}
	return err
}

// take collects the bytes to write. After this, the server may receive the messages.
func (c *conn) take() bool {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.out, c.batch = append(c.out[:0], c.control...), c.batch[:0]
	c.control = c.control[:0]
	if c.table != c.limit {
		c.limit = c.table
		c.enc.SetMaxDynamicTableSizeLimit(c.limit)
	}
	for _, s := range c.pending {
		if s.ended {
			continue
		}
		if int64(len(s.req.Body)) > c.streamWindow || c.nextID >= 1<<31-2 {
			c.draining = true // the server's windows have shrunk, or the stream numbers are used up
			c.window += int64(len(s.req.Body))
			c.endUnseen(s, errRefused)
			continue
		}
		s.id, s.left = c.nextID, true
		c.nextID += 2
		c.streams[s.id] = s
		c.batch = append(c.batch, s)
	}
	clear(c.pending)
	c.pending = c.pending[:0]
	return c.dead == nil && len(c.out)+len(c.batch) > 0
}

// encode writes a message's frames into out.
func (c *conn) encode(s *stream) {
	r := s.req
	c.block.Reset()
	field := func(name, value string, once bool) {
		_ = c.enc.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: once}) // into memory
	}
	field(":method", "POST", false)
	field(":scheme", "https", false)
	field(":authority", r.Authority, false)
	field(":path", r.Path, true)
	for i := range r.Header {
		_ = c.enc.WriteField(r.Header[i])
	}
	field("content-length", strconv.Itoa(len(r.Body)), false)
	c.out = appendHeaders(c.out, s.id, c.block.Bytes(), len(r.Body) == 0)
	c.out = appendData(c.out, s.id, r.Body)
}
