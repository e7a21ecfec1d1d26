package http2

import "encoding/binary"

// data takes one DATA frame.
func (c *Conn) data(flags byte, id uint32, p []byte) error {
	if id == 0 {
		return &ConnError{ProtocolError, "DATA on stream 0"}
	}
	size := int32(len(p)) // including padding (RFC 9113, section 6.1)
	p, err := unpad(flags, p)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.recvWin -= size; c.recvWin < 0 {
		c.mu.Unlock()
		return &ConnError{FlowControl, "the connection's window is exceeded"}
	}
	if len(p) == 0 && flags&flagEndStream == 0 {
		if err := c.spendLocked(1); err != nil {
			c.mu.Unlock()
			return err
		}
	} else {
		c.earn()
	}
	s, err := c.streamFor(id, "DATA")
	switch {
	case err != nil:
	case s == nil:
		c.giveBack(nil, size)
		err = c.refuse(id, StreamClosed)
	case s.flags&streamRemoteEnded != 0:
		c.giveBack(nil, size)
		c.resetLocked(s, StreamClosed, "DATA after the end of the request")
	case s.recvWin < size:
		c.giveBack(nil, size)
		c.resetLocked(s, FlowControl, "the stream's window is exceeded")
	case !s.body(len(p), flags&flagEndStream != 0):
		c.giveBack(nil, size)
		c.resetLocked(s, ProtocolError, "content-length does not match the body")
	default:
		s.recvWin -= size
		if flags&flagEndStream != 0 {
			s.flags |= streamRemoteEnded
		}
		c.giveBack(s, size)
		c.mu.Unlock()
		if len(p) > 0 && s.handler != nil {
			s.handler.Data(p)
		}
		if flags&flagEndStream != 0 {
			c.halfClosed(s)
		}
		return nil
	}
	c.mu.Unlock()
	return err
}

// halfClosed reports the end of a request to its handler, unless the stream has ended meanwhile.
func (c *Conn) halfClosed(s *Stream) {
	c.mu.Lock()
	gone := s.flags&streamGone != 0
	c.mu.Unlock()
	if !gone && s.handler != nil {
		s.handler.HalfClosed()
	}
}

func unpad(flags byte, p []byte) ([]byte, error) {
	if flags&flagPadded == 0 {
		return p, nil
	}
	if len(p) == 0 || int(p[0]) >= len(p) {
		return nil, &ConnError{ProtocolError, "padding is longer than the frame"}
	}
	return p[1 : len(p)-int(p[0])], nil
}

// streamFor returns an open stream; nil if it is closed, an error if it was never open. Caller holds mu.
func (c *Conn) streamFor(id uint32, frame string) (*Stream, error) {
	if id > c.lastID || id%2 == 0 {
		return nil, &ConnError{ProtocolError, frame + " on an idle stream"}
	}
	return c.find(id), nil
}

// refuse resets a stream that is not open, in answer to a frame. Caller holds mu.
func (c *Conn) refuse(id uint32, code ErrCode) error {
	if err := c.spendLocked(1); err != nil {
		return err
	}
	c.control(func(b []byte) []byte { return appendReset(b, id, code) })
	return nil
}

// giveBack credits n received bytes to the peer's windows, in batches. The bytes of a paused stream are credited to both windows only after
// it is resumed. Caller holds mu.
func (c *Conn) giveBack(s *Stream, n int32) {
	if s != nil {
		s.credit += n
		if s.flags&streamPaused != 0 {
			return
		}
		n = s.takeCredit()
	}
	c.credit += n
	if back := c.credit; back >= int32(c.srv.cfg.ConnWindow/4) {
		c.recvWin += back
		c.credit = 0
		c.control(func(b []byte) []byte { return appendWindowUpdate(b, 0, uint32(back)) })
	}
}

func (c *Conn) priority(id uint32, p []byte) error {
	if id == 0 {
		return &ConnError{ProtocolError, "PRIORITY on stream 0"}
	}
	if err := c.spend(1); err != nil {
		return err
	}
	if len(p) != 5 {
		return c.streamError(id, FrameSize, "PRIORITY has a wrong size")
	}
	if dependsOn(p) == id {
		return c.streamError(id, ProtocolError, "a stream depends on itself")
	}
	return nil
}

func dependsOn(p []byte) uint32 { return binary.BigEndian.Uint32(p) &^ (1 << 31) }

// streamError resets a stream, open or not.
func (c *Conn) streamError(id uint32, code ErrCode, reason string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.find(id); s != nil {
		c.resetLocked(s, code, reason)
		return nil
	}
	return c.refuse(id, code)
}

func (c *Conn) reset(id uint32, p []byte) error {
	if len(p) != 4 {
		return &ConnError{FrameSize, "RST_STREAM has a wrong size"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == 0 {
		return &ConnError{ProtocolError, "RST_STREAM on stream 0"}
	}
	s, err := c.streamFor(id, "RST_STREAM")
	if err != nil {
		return err
	}
	if s != nil {
		c.remove(s, &StreamError{Code: ErrCode(binary.BigEndian.Uint32(p)), Remote: true})
	}
	return c.spendLocked(2)
}

func (c *Conn) ping(flags byte, id uint32, p []byte) error {
	switch {
	case id != 0:
		return &ConnError{ProtocolError, "PING on a stream"}
	case len(p) != 8:
		return &ConnError{FrameSize, "PING has a wrong size"}
	case flags&flagAck == 0:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.control(func(b []byte) []byte { return append(appendFrameHead(b, 8, framePing, flagAck, 0), p...) })
		return c.spendLocked(2)
	}
	return c.pong(binary.BigEndian.Uint64(p))
}

func (c *Conn) windowUpdate(id uint32, p []byte) error {
	if len(p) != 4 {
		return &ConnError{FrameSize, "WINDOW_UPDATE has a wrong size"}
	}
	n := int64(binary.BigEndian.Uint32(p) &^ (1 << 31))
	c.mu.Lock()
	err := c.spendLocked(1)
	switch {
	case err != nil:
	case id == 0 && n == 0:
		err = &ConnError{ProtocolError, "WINDOW_UPDATE of 0"}
	case id == 0 && int64(c.sendWin)+n > maxWindow:
		err = &ConnError{FlowControl, "the connection's window overflows"}
	case id == 0:
		c.sendWin += int32(n)
		if c.waiting > 0 {
			c.mu.Unlock()
			c.flushAll()
			return nil
		}
	default:
		return c.streamWindow(id, n)
	}
	c.mu.Unlock()
	return err
}

// streamWindow increases one stream's window. It releases mu, which the caller holds.
func (c *Conn) streamWindow(id uint32, n int64) error {
	s, err := c.streamFor(id, "WINDOW_UPDATE")
	drained := false
	switch {
	case err != nil || s == nil:
	case n == 0:
		c.resetLocked(s, ProtocolError, "WINDOW_UPDATE of 0")
	case int64(s.sendWin)+n > maxWindow:
		c.resetLocked(s, FlowControl, "the stream's window overflows")
	default:
		s.sendWin += int32(n)
		if s.out != nil {
			for c.sendNext(s) {
			}
			drained = s.tookDrained()
		}
	}
	c.mu.Unlock()
	if drained && s.handler != nil {
		s.handler.Drained()
	}
	return err
}
