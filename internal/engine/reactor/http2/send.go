package http2

import (
	"encoding/binary"
	"sync"
)

// outQueue holds the data that waits on one stream for the peer's windows or for the socket.
type outQueue struct {
	items   []outItem
	bytes   int
	closeBy instant // if ending: deadline for sending the rest
	ending  bool    // the stream was ended
	err     error   // why the stream ended, once it is removed
}

type outItem struct {
	head []byte // owned
	tail []byte // shared
	raw  bool   // head contains complete frames instead of body data
	end  bool   // the stream ends with it
}

var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// maxScratch is the largest buffer that the pool keeps, so that a rare large head is freed.
const maxScratch = 64 << 10

func putScratch(pooled *[]byte, b []byte) {
	if cap(b) <= maxScratch {
		*pooled = b
		scratch.Put(pooled)
	}
}

// Write sends a part of the answer's body: head, which is only valid during the call, then tail, which is shared and immutable. It returns
// false and accepts nothing if the stream's queue is full, in which case Drained follows, or if the stream has ended.
func (s *Stream) Write(head, tail []byte) bool { return s.write(false, head, tail) }

// WriteMessage is Write with the five bytes in front that delimit messages in gRPC.
func (s *Stream) WriteMessage(head, tail []byte) bool { return s.write(true, head, tail) }

// Cork collects writes to the connection until Uncork, which must follow soon.
func (s *Stream) Cork() { s.conn.io.Cork() }

// Uncork sends the writes since Cork.
func (s *Stream) Uncork() { s.conn.io.Uncork() }

// Queued returns the number of bytes of the answer that wait for the peer's windows and the socket.
func (s *Stream) Queued() int {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.out == nil {
		return 0
	}
	return s.out.bytes
}

const messagePrefix = 5

func (s *Stream) write(prefix bool, head, tail []byte) bool {
	n := len(head) + len(tail)
	if prefix {
		n += messagePrefix
	}
	if n == 0 {
		return true
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.flags&(streamGone|streamLocalEnded) != 0 || c.flags&connFailed != 0 {
		return false
	}
	pooled := scratch.Get().(*[]byte)
	b := appendFrameHead((*pooled)[:0], n, frameData, 0, s.id)
	if prefix {
		b = binary.BigEndian.AppendUint32(append(b, 0), uint32(n-messagePrefix))
	}
	b = append(b, head...)
	ok := c.sendOrQueue(s, b, tail, n)
	putScratch(pooled, b)
	return ok
}

// sendOrQueue sends or queues one complete DATA frame. Caller holds mu.
func (c *Conn) sendOrQueue(s *Stream, frame, tail []byte, n int) bool {
	if s.out == nil && n <= int(min(c.sendWin, s.sendWin, maxFrameSize)) && c.io.Queued() < socketHighWater && c.io.Write(frame, tail) {
		c.sent(s, n)
		return true
	}
	if !c.hasRoom(s, n) {
		s.flags |= streamRefused
		if s.out == nil {
			c.flags |= connCrowded
		}
		return false
	}
	c.enqueue(s, outItem{head: append([]byte(nil), frame[frameHead:]...), tail: tail})
	for c.sendNext(s) {
	}
	return true
}

func (c *Conn) sent(s *Stream, n int) {
	c.sendWin -= int32(n)
	s.sendWin -= int32(n)
	c.earn()
}

// hasRoom reports whether n more bytes may be queued. Bytes that the socket has not accepted count, too, so that the limit holds for a
// client that never reads. An empty queue accepts any number.
func (c *Conn) hasRoom(s *Stream, n int) bool {
	cfg := &c.srv.cfg
	if s.out != nil && s.out.bytes+min(c.io.Queued(), socketHighWater)+n > cfg.StreamQueueBytes {
		return false
	}
	if c.queued > 0 && int(c.queued)+n > cfg.ConnQueueBytes {
		return false
	}
	return s.out == nil && c.queued == 0 || c.srv.queued.Load()+int64(n) <= cfg.TotalQueueBytes
}

func (c *Conn) enqueue(s *Stream, it outItem) {
	if s.out == nil {
		s.out = &outQueue{}
		c.waiting++
	}
	s.out.items = append(s.out.items, it)
	c.account(s, len(it.head)+len(it.tail))
}

func (c *Conn) account(s *Stream, n int) {
	s.out.bytes += n
	c.queued += int32(n)
	c.srv.queued.Add(int64(n))
}

// forget drops a stream's queue.
func (c *Conn) forget(s *Stream) {
	if s.out == nil {
		return
	}
	c.account(s, -s.out.bytes)
	s.out = nil
	c.waiting--
}

// sendNext sends at most one frame of a stream's queue, and reports whether there may be more to send. Caller holds mu.
func (c *Conn) sendNext(s *Stream) bool {
	if s.out == nil || c.flags&connFailed != 0 {
		return false
	}
	it := &s.out.items[0]
	if it.raw {
		if !c.io.Write(it.head, nil) {
			return false
		}
		end := it.end
		c.account(s, -len(it.head))
		c.pop(s)
		if end {
			c.finish(s)
		}
		return !end
	}
	n := min(len(it.head)+len(it.tail), int(min(c.sendWin, s.sendWin, maxFrameSize)))
	if n <= 0 || c.io.Queued() >= socketHighWater {
		return false
	}
	h := min(n, len(it.head))
	pooled := scratch.Get().(*[]byte)
	b := append(appendFrameHead((*pooled)[:0], n, frameData, 0, s.id), it.head[:h]...)
	ok := c.io.Write(b, it.tail[:n-h])
	putScratch(pooled, b)
	if !ok {
		return false
	}
	c.sent(s, n)
	c.account(s, -n)
	it.head, it.tail = it.head[h:], it.tail[n-h:]
	if len(it.head)+len(it.tail) == 0 {
		c.pop(s)
	}
	return true
}

func (c *Conn) pop(s *Stream) {
	q := s.out
	q.items[0] = outItem{}
	if q.items = q.items[1:]; len(q.items) == 0 {
		s.out = nil
		c.waiting--
	}
}

// flushAll sends as much as the windows and the socket allow, one frame per stream in turn, and notifies handlers whose writes were
// refused.
func (c *Conn) flushAll() {
	c.mu.Lock()
	for more := c.waiting > 0; more; {
		more = false
		for s := range c.all() {
			if c.sendNext(s) {
				more = true
			}
		}
	}
	var drained []StreamHandler
	for s := range c.all() {
		if s.handler != nil && s.tookDrained() {
			drained = append(drained, s.handler)
		}
	}
	c.mu.Unlock()
	for _, h := range drained {
		h.Drained()
	}
}
