package http2

import (
	"encoding/binary"

	"golang.org/x/net/http2/hpack"
)

// Stream is one request and its answer. Its methods are safe for concurrent use, never block and never call back.
type Stream struct {
	conn    *Conn
	next    *Stream // link in the connection's list, or in the list of ended streams
	handler StreamHandler
	out     *outQueue // nil: nothing waits to be sent
	id      uint32
	sendWin int32
	recvWin int32
	credit  int32  // bytes received and not yet credited to the peer
	bodyEnd uint32 // remaining bytes of the request's body, if streamSized
	flags   streamFlags
}

type streamFlags uint16

const (
	streamRemoteEnded streamFlags = 1 << iota // the request is complete
	streamLocalEnded                          // the answer is complete, though it may still wait to be sent
	streamPaused
	streamRefused // a Write was refused: Drained must follow
	streamSized   // the request told its content-length
	streamGone    // removed from the connection
	streamResumed // Resumed is due
)

// Conn is the connection below.
func (s *Stream) Conn() *Conn { return s.conn }

// Transport returns the transport of the connection.
func (c *Conn) Transport() Transport { return c.io }

// SetHandler replaces the handler that Open returns. Call it only from a callback.
func (s *Stream) SetHandler(h StreamHandler) { s.handler = h }

// err returns why an ended stream ended.
func (s *Stream) err() error {
	if s.out == nil {
		return nil
	}
	return s.out.err
}

// body subtracts n received bytes from the request's content-length, and reports whether the result is valid.
func (s *Stream) body(n int, end bool) bool {
	if s.flags&streamSized == 0 {
		return true
	}
	if uint64(n) > uint64(s.bodyEnd) {
		return false
	}
	s.bodyEnd -= uint32(n)
	return !end || s.bodyEnd == 0
}

// takeCredit sends a WINDOW_UPDATE when half of the window is used, and returns the number of bytes to credit to the connection's window.
// Caller holds the connection's mu.
func (s *Stream) takeCredit() int32 {
	n := s.credit
	window := int32(s.conn.srv.cfg.StreamWindow)
	s.credit = 0
	if s.flags&(streamRemoteEnded|streamGone) != 0 {
		return n
	}
	// recvWin is what the peer may still send; the rest of the full window was received and handled.
	if used := window - s.recvWin; used >= window/2 {
		s.recvWin = window
		s.conn.control(func(b []byte) []byte { return appendWindowUpdate(b, s.id, uint32(used)) })
	}
	return n
}

// tookDrained reports, once, that a writer whose data was refused may continue. Caller holds the connection's mu.
func (s *Stream) tookDrained() bool {
	if s.flags&streamRefused == 0 || s.out != nil || s.flags&streamGone != 0 {
		return false
	}
	s.flags &^= streamRefused
	return true
}

// WriteHeaders sends the answer's headers.
func (s *Stream) WriteHeaders(fields ...hpack.HeaderField) { s.writeBlock(false, fields) }

// WriteTrailers sends the answer's last headers after the queued data, and ends the stream. They may be the answer's only headers.
func (s *Stream) WriteTrailers(fields ...hpack.HeaderField) { s.writeBlock(true, fields) }

// WriteRaw sends a header block that EncodeBlock has encoded; it may be shared and must not change.
func (s *Stream) WriteRaw(block []byte, end bool) {
	var flags byte = flagEndHeaders
	if end {
		flags |= flagEndStream
	}
	s.block(end, func(b []byte) []byte {
		return append(appendFrameHead(b, len(block), frameHeaders, flags, s.id), block...)
	})
}

// EncodeBlock encodes a header block of less than 16 KiB for WriteRaw.
func EncodeBlock(fields ...hpack.HeaderField) []byte { return appendBlock(nil, fields) }

func (s *Stream) writeBlock(end bool, fields []hpack.HeaderField) {
	s.block(end, func(b []byte) []byte { return appendHeaders(b, s.id, end, fields) })
}

// End ends the answer without trailers.
func (s *Stream) End() {
	s.block(true, func(b []byte) []byte { return appendFrameHead(b, 0, frameData, flagEndStream, s.id) })
}

// block sends frames that flow control does not limit.
func (s *Stream) block(end bool, build func([]byte) []byte) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.flags&(streamGone|streamLocalEnded) != 0 || c.flags&connFailed != 0 {
		return
	}
	if end {
		s.flags |= streamLocalEnded
	}
	if s.out == nil && c.writeFrames(build) {
		if end {
			c.finish(s)
		}
		return
	}
	c.enqueue(s, outItem{head: build(nil), raw: true, end: end})
	if end {
		s.out.ending, s.out.closeBy = true, now().add(c.srv.cfg.CloseTimeout)
		c.arm(c.srv.cfg.CloseTimeout)
	}
}

// Reset ends the stream at once and discards its queue.
func (s *Stream) Reset(code ErrCode, reason string) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.flags&streamGone == 0 {
		c.resetLocked(s, code, reason)
	}
}

func (c *Conn) resetLocked(s *Stream, code ErrCode, reason string) {
	c.control(func(b []byte) []byte { return appendReset(b, s.id, code) })
	c.remove(s, &StreamError{Code: code, Reason: reason})
}

// finish ends a stream whose answer is sent; the client need not send the rest of its request (RFC 9113, section 8.1).
func (c *Conn) finish(s *Stream) {
	if s.flags&streamRemoteEnded == 0 {
		c.control(func(b []byte) []byte { return appendReset(b, s.id, NoError) })
	}
	c.remove(s, nil)
}

// Pause stops extending the stream's receive window until Resume: bytes in transit, at most a window, still arrive.
func (s *Stream) Pause() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.flags |= streamPaused
}

// Resume extends the receive window again. The handler's Resumed follows.
func (s *Stream) Resume() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.flags&streamPaused == 0 || s.flags&streamGone != 0 || c.flags&connFailed != 0 {
		return
	}
	s.flags = s.flags&^streamPaused | streamResumed
	c.giveBack(s, 0)
	c.flags |= connResumed
	c.nudge()
}

// resumed calls the handlers' Resumed where needed. It holds mu, but not during the calls.
func (c *Conn) resumed() {
	c.flags &^= connResumed
	var due []StreamHandler
	for s := range c.all() {
		if s.flags&streamResumed != 0 && s.handler != nil {
			due = append(due, s.handler)
		}
		s.flags &^= streamResumed
	}
	c.mu.Unlock()
	for _, h := range due {
		h.Resumed()
	}
	c.mu.Lock()
}

// Hold adds n, which may be negative, to the number of request bytes that the layer above holds for this connection. It returns false, and
// adds nothing, if that exceeds the limit of one connection.
func (s *Stream) Hold(n int) bool {
	if n == 0 {
		return true
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 && int(c.held)+n > c.srv.cfg.HoldBytes {
		return false
	}
	c.held += int32(n)
	return true
}

// Probe sends a PING unless one is under way; its answer is reported to every stream's Alive.
func (s *Stream) Probe() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flags&(connProbed|connFailed) != 0 {
		return
	}
	c.flags |= connProbed
	c.sendPing(pingProbe)
}

// Payloads of our PINGs.
const (
	pingProbe uint64 = 0x676f647769740001 + iota
	pingKeepAlive
	pingDrain
)

func (c *Conn) sendPing(payload uint64) {
	c.control(func(b []byte) []byte {
		return binary.BigEndian.AppendUint64(appendFrameHead(b, 8, framePing, 0, 0), payload)
	})
}
