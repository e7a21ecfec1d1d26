package http2

import (
	"encoding/binary"
	"errors"
	"regexp"
	"sync"
	"time"
)

// Conn is one connection. It implements the reactor's handler: the loop calls Data, Drained, Tick and Closed one at a time. Any goroutine
// may write to streams.
type Conn struct {
	io  Transport
	srv *Server

	mu      sync.Mutex // guards everything but in, prev and next; held during writes to io, never during calls of a StreamHandler
	streams *Stream    // open streams, newest first, while they are few
	index   map[uint32]*Stream
	ended   *Stream // removed streams whose Closed must be called

	in *input // input state while a connection starts or a header block is incomplete; only the loop uses it

	prev, next *Conn // links in the server's list; guarded by Server.mu

	timerAt  instant // when Tick is due, if connTimed
	checkAt  instant // next look at silence
	budgetAt instant // when budget was last refilled

	sendWin int32 // bytes that the peer accepts on all streams together
	initWin int32 // initial window of a new stream, set by the peer
	recvWin int32 // bytes that the peer may still send on all streams together
	credit  int32 // bytes received and not yet credited to the peer
	queued  int32 // bytes in the streams' queues
	held    int32 // request bytes that the layer above holds
	lastID  uint32
	open    uint16 // streams
	waiting uint16 // number of streams with a non-empty queue
	budget  int16  // for control frames; see flood.go
	flags   connFlags
}

// input is state that only a new connection needs, or one in the middle of a header block.
type input struct {
	dec   *headerDecoder // nil: the table size is 0, so any decoder of the pool works
	block *headerBlock   // waiting for CONTINUATION
}

type connFlags uint16

const (
	connPrefaced  connFlags = 1 << iota // the client's preface has come
	connSettings                        // and its first SETTINGS
	connAcked                           // it has acknowledged ours
	connShrinking                       // the client was asked to use no header table
	connActive                          // bytes have arrived since the last check
	connPinged                          // a keep-alive PING is out
	connProbed                          // a PING was sent, and streams wait for its answer
	connBusy                            // the loop is in a callback, after which it handles ended
	connDraining                        // GOAWAY was sent with the highest id
	connDrained                         // GOAWAY was sent with the actual last id
	connFailed                          // the connection closes after all written bytes are sent; nothing more is read
	connClosed                          // the transport is gone
	connTimed                           // a timer is set
	connResumed                         // a stream's Resumed is due
	connCrowded                         // a stream's write was refused because of what other streams have queued
)

// errNotHTTP2 ends connections of another protocol.
var (
	errNotHTTP2 = errors.New("the peer does not speak HTTP/2")
	errHTTP1    = errors.New("the peer speaks HTTP/1")
)

// NewConn starts serving a connection.
func (s *Server) NewConn(io Transport) *Conn {
	c := &Conn{
		io: io, srv: s,
		sendWin: defaultWindow, initWin: defaultWindow,
		recvWin: int32(max(s.cfg.ConnWindow, defaultWindow)), budget: floodBurst, budgetAt: now(),
	}
	s.add(c)
	c.mu.Lock()
	patience := s.cfg.FirstRequest
	if p, ok := io.(interface{ Patience() time.Duration }); ok && p.Patience() > 0 {
		patience = min(patience, p.Patience())
	}
	c.checkAt = now().add(patience)
	c.arm(patience)
	c.mu.Unlock()
	return c
}

// Data parses what has come.
func (c *Conn) Data(b []byte) (int, error) {
	c.enter()
	used, err := c.parse(b)
	if err != nil {
		c.fail(err)
		used = len(b)
	}
	c.leave()
	return used, nil
}

// Drained sends the frames that waited for the socket.
func (c *Conn) Drained() {
	c.enter()
	c.flushAll()
	c.leave()
}

// Closed ends all streams.
func (c *Conn) Closed(err error) {
	c.enter()
	c.mu.Lock()
	c.flags |= connClosed | connFailed
	for s := range c.all() {
		c.remove(s, err)
	}
	c.mu.Unlock()
	c.srv.remove(c)
	if c.in != nil && c.in.dec != nil {
		c.in.dec.free()
	}
	c.in = nil
	c.leave()
}

func (c *Conn) enter() {
	c.mu.Lock()
	c.flags |= connBusy
	c.mu.Unlock()
}

// leave does the work that other goroutines have left for the loop, mainly calls of Closed for ended streams.
func (c *Conn) leave() {
	for {
		c.mu.Lock()
		if c.flags&connResumed != 0 {
			c.resumed()
		}
		if c.flags&connCrowded != 0 {
			c.flags &^= connCrowded
			c.mu.Unlock()
			c.flushAll()
			c.mu.Lock()
		}
		s := c.ended
		c.ended = nil
		if s == nil {
			c.flags &^= connBusy
			done := c.flags&(connDrained|connFailed) == connDrained && c.open == 0 && c.ended == nil
			if done {
				c.flags |= connFailed
			}
			c.mu.Unlock()
			if done {
				c.io.CloseAfterFlush(nil)
			}
			return
		}
		c.mu.Unlock()
		for s != nil {
			next := s.next
			s.next = nil
			if s.handler != nil {
				s.handler.Closed(s.err())
			}
			s = next
		}
	}
}

// nudge makes the loop call leave soon. Caller holds mu.
func (c *Conn) nudge() {
	if c.flags&connBusy == 0 {
		c.io.Nudge()
	}
}

func (c *Conn) is(f connFlags) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flags&f != 0
}

// parse handles the complete frames in b and returns the number of their bytes.
func (c *Conn) parse(b []byte) (used int, err error) {
	if !c.is(connPrefaced) {
		if used, err = c.start(b); used == 0 {
			return 0, err
		}
	}
	for len(b)-used >= frameHead && !c.is(connFailed) {
		p := b[used:]
		n := int(p[0])<<16 | int(p[1])<<8 | int(p[2])
		if n > maxFrameSize {
			return used, &ConnError{FrameSize, "frame is larger than 16384 bytes"}
		}
		if len(p) < frameHead+n {
			break
		}
		id := binary.BigEndian.Uint32(p[5:]) &^ (1 << 31)
		if err := c.frame(p[3], p[4], id, p[frameHead:frameHead+n]); err != nil {
			return used, err
		}
		used += frameHead + n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if used > 0 { // an incomplete frame is not a sign of life
		c.flags |= connActive
	}
	if c.flags&connFailed != 0 {
		used = len(b)
	}
	return used, nil
}

// start checks the client's preface and sends the server's. It returns 0 while the preface is incomplete.
func (c *Conn) start(b []byte) (int, error) {
	n := min(len(b), len(preface))
	if string(b[:n]) != preface[:n] {
		if http1Request.Match(b[:min(len(b), 128)]) {
			return 0, errHTTP1
		}
		return 0, errNotHTTP2
	}
	if n < len(preface) {
		return 0, nil
	}
	c.in = &input{dec: newDecoder(headerTable)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flags |= connPrefaced
	c.control(func(b []byte) []byte { return append(b, c.srv.settings...) })
	if c.srv.isDraining() {
		c.drain()
	}
	return n, nil
}

// frame handles one frame.
func (c *Conn) frame(typ, flags byte, id uint32, p []byte) error {
	if c.in != nil && c.in.block != nil && (typ != frameContinuation || id != c.in.block.id) {
		return &ConnError{ProtocolError, "a header block was interrupted"}
	}
	if !c.settingsSeen(typ, flags) {
		return &ConnError{ProtocolError, "the first frame must be SETTINGS"}
	}
	switch typ {
	case frameData:
		return c.data(flags, id, p)
	case frameHeaders:
		return c.headers(flags, id, p)
	case frameContinuation:
		return c.continuation(flags, id, p)
	case framePriority:
		return c.priority(id, p)
	case frameRSTStream:
		return c.reset(id, p)
	case frameSettings:
		return c.settings(flags, id, p)
	case framePing:
		return c.ping(flags, id, p)
	case frameWindowUpdate:
		return c.windowUpdate(id, p)
	case framePushPromise:
		return &ConnError{ProtocolError, "clients must not send PUSH_PROMISE"}
	case frameGoAway:
		if id != 0 {
			return &ConnError{ProtocolError, "GOAWAY on a stream"}
		}
		if len(p) < 8 {
			return &ConnError{FrameSize, "GOAWAY is too short"}
		}
		return c.spend(1)
	default: // unknown types are ignored (RFC 9113, section 4.1)
		return c.spend(1)
	}
}

func (c *Conn) settingsSeen(typ, flags byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flags&connSettings != 0 {
		return true
	}
	if typ != frameSettings || flags&flagAck != 0 {
		return false
	}
	c.flags |= connSettings
	return true
}

// fail ends the connection with a GOAWAY that contains the reason.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

func (c *Conn) failLocked(err error) {
	if c.flags&connFailed != 0 {
		return
	}
	var ce *ConnError
	switch {
	case errors.As(err, &ce):
		c.control(func(b []byte) []byte { return appendGoAway(b, c.lastID, ce.Code, ce.Reason) })
	case errors.Is(err, errHTTP1):
		c.io.Write([]byte(http1Answer), nil)
	}
	c.flags |= connFailed
	c.io.CloseAfterFlush(err)
}

var http1Request = regexp.MustCompile(`^[A-Z]{3,7} [/*]`)

// http1Answer informs browsers and misconfigured proxies that this port only supports HTTP/2.
const http1Answer = "HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Type: text/plain\r\nContent-Length: 36\r\n" +
	"Connection: close\r\n\r\nThis port speaks gRPC over HTTP/2.\r\n"

// control sends frames that must not wait. The queue reserves room for them; if a peer lets even that fill up, it does not read. Caller
// holds mu.
func (c *Conn) control(build func([]byte) []byte) {
	if c.flags&connFailed == 0 && !c.writeFrames(build) && !c.io.Deaf() {
		c.flags |= connFailed
		c.io.Abort(&ConnError{EnhanceYourCalm, "the peer does not read"})
	}
}

// writeFrames writes the frames that build appends to a pooled buffer. Caller holds mu.
func (c *Conn) writeFrames(build func([]byte) []byte) bool {
	pooled := scratch.Get().(*[]byte)
	b := build((*pooled)[:0])
	ok := c.io.Write(b, nil)
	putScratch(pooled, b)
	return ok
}
