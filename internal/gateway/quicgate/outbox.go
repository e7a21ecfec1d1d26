package quicgate

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"godwit.dev/godwit/internal/notify/frame"
)

// outbox holds the frames that wait for a client.
type outbox struct {
	items  []item
	bytes  int // of items, and of those that are being written
	corked int
}

// item is a frame that waits: its length, its head, and its tail, which many connections share.
type item struct {
	head, tail []byte
	size       int  // of head and tail
	datagram   bool // without its length, as a datagram if it fits one
}

// itemBytes is the cost of a waiting frame in addition to its bytes, so that small frames cannot grow the queue without limit.
const itemBytes = 96

// batchBytes is how much is written at a time.
const batchBytes = 16 << 10

func (i *item) cost() int { return i.size + itemBytes }

// Write implements session.Transport.
func (c *conn) Write(k frame.ServerKind, head, tail []byte) bool {
	it := item{tail: tail, size: len(head) + len(tail), datagram: c.datagrams && k == frame.ServerMessage}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.is&closing != 0 {
		return false
	}
	if c.out.bytes > 0 && (c.out.bytes+it.cost() > c.gate.cfg.Queue || c.gate.budget.Full()) {
		c.is |= refused
		return false
	}
	it.head = append([]byte(nil), head...)
	c.put(it)
	return true
}

// put adds a frame to those that wait. c.mu is held.
func (c *conn) put(it item) {
	if c.is&closing != 0 {
		return
	}
	c.out.items = append(c.out.items, it)
	c.out.bytes += it.cost()
	c.gate.charge(it.cost())
	c.send()
}

// send has what waits written. A goroutine does that, since QUIC's streams block; it ends when nothing waits, because an idle connection must not cost one
// more. c.mu is held.
func (c *conn) send() {
	if c.is&writing == 0 && (c.out.corked == 0 || c.is&closing != 0) {
		c.is |= writing
		c.line.running.Go(c.drain)
	}
}

// Cork implements session.Corker.
func (c *conn) Cork() {
	c.mu.Lock()
	c.out.corked++
	c.mu.Unlock()
}

// Uncork implements session.Corker.
func (c *conn) Uncork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.corked--; c.out.corked == 0 && len(c.out.items) > 0 {
		c.send()
	}
}

// Queued is how many bytes wait until the client reads them.
func (c *conn) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.bytes
}

// drop discards what waits. c.mu is held.
func (c *conn) drop() {
	for i := range c.out.items {
		c.out.bytes -= c.out.items[i].cost()
		c.gate.charge(-c.out.items[i].cost())
	}
	c.out.items = nil
}

// drain writes what waits, and at the end of a session ends the server's direction of the stream.
func (c *conn) drain() {
	batch, _ := c.gate.batches.Get().(*[]byte)
	defer c.gate.batches.Put(batch)
	for {
		items, size := c.take()
		if items == nil {
			return
		}
		err := c.write(items, batch)
		c.mu.Lock()
		c.out.bytes -= size
		c.mu.Unlock()
		c.gate.charge(-size)
		if err != nil {
			c.abort(err)
		}
	}
}

// take returns what waits. Nil: nothing did, and the drain is over.
func (c *conn) take() (items []item, size int) {
	c.mu.Lock()
	if len(c.out.items) > 0 {
		items, c.out.items = c.out.items, nil
		for i := range items {
			size += items[i].cost()
		}
		c.mu.Unlock()
		return items, size
	}
	c.is &^= writing
	drained, last := c.is&refused != 0, c.is&(closing|flushed|closed) == closing
	c.is &^= refused
	c.mu.Unlock()
	switch {
	case last:
		c.flushed()
	case drained:
		c.sess.Drained()
	}
	return nil, 0
}

// flushed ends the server's direction of the stream, and soon the session.
func (c *conn) flushed() {
	_ = c.str.Close() // a stream that is reset ends too
	c.mu.Lock()
	c.is |= flushed
	all := c.is&readAll != 0
	c.mu.Unlock()
	if all {
		c.finish()
		return
	}
	time.AfterFunc(c.gate.cfg.linger, c.finish)
}

// write writes items, many small ones at a time.
func (c *conn) write(items []item, batch *[]byte) error {
	b := (*batch)[:0]
	defer func() { *batch = b[:0] }()
	for i := range items {
		it := &items[i]
		if it.datagram && c.datagram(it) {
			continue
		}
		if len(b) > 0 && len(b)+it.size > batchBytes {
			if _, err := c.str.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
		b = append(binary.AppendUvarint(b, uint64(it.size)), it.head...) // not negative
		if len(b)+len(it.tail) <= batchBytes {
			b = append(b, it.tail...)
			continue
		}
		if _, err := c.str.Write(b); err != nil {
			return err
		}
		b = b[:0]
		if _, err := c.str.Write(it.tail); err != nil {
			return err
		}
	}
	if len(b) == 0 {
		return nil
	}
	_, err := c.str.Write(b)
	return err
}

// datagram sends a frame as a datagram. False: it must go on the stream.
func (c *conn) datagram(it *item) bool {
	b := quicvarint.Append(make([]byte, 0, it.size+8), uint64(c.wt.StreamID()/4)) // not negative; RFC 9297, section 2.1
	err := c.line.conn.SendDatagram(append(append(b, it.head...), it.tail...))
	var large *quic.DatagramTooLargeError
	return !errors.As(err, &large)
}
