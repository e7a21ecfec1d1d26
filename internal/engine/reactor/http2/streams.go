package http2

import "iter"

// all iterates over the open streams; the loop's body may remove the current one. Caller holds mu.
func (c *Conn) all() iter.Seq[*Stream] {
	return func(yield func(*Stream) bool) {
		if c.index != nil {
			for _, s := range c.index {
				if !yield(s) {
					return
				}
			}
			return
		}
		for s := c.streams; s != nil; {
			next := s.next
			if !yield(s) {
				return
			}
			s = next
		}
	}
}

func (c *Conn) find(id uint32) *Stream {
	if c.index != nil {
		return c.index[id]
	}
	for s := c.streams; s != nil; s = s.next {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (c *Conn) insert(s *Stream) {
	c.open++
	if c.index == nil && c.open > indexAfter {
		c.index = make(map[uint32]*Stream, 2*indexAfter)
		for l := c.streams; l != nil; {
			next := l.next
			c.index[l.id], l.next = l, nil
			l = next
		}
		c.streams = nil
	}
	if c.index != nil {
		c.index[s.id] = s
		return
	}
	s.next, c.streams = c.streams, s
}

// remove removes a stream from the connection; the loop then calls its handler's Closed. Caller holds mu.
func (c *Conn) remove(s *Stream, err error) {
	if s.flags&streamGone != 0 {
		return
	}
	s.flags |= streamGone
	c.unlink(s)
	c.open--
	if c.open == 0 {
		c.index = nil
	}
	c.forget(s)
	if s.credit > 0 { // received while paused: now credited to the connection's window
		n := s.credit
		s.credit = 0
		if c.flags&connFailed == 0 {
			c.giveBack(nil, n)
		}
	}
	if err != nil {
		s.out = &outQueue{err: err}
	}
	s.next, c.ended = c.ended, s
	c.nudge()
}

func (c *Conn) unlink(s *Stream) {
	if c.index != nil {
		delete(c.index, s.id)
		return
	}
	for p := &c.streams; *p != nil; p = &(*p).next {
		if *p == s {
			*p, s.next = s.next, nil
			return
		}
	}
}
