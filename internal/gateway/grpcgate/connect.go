package grpcgate

import (
	"errors"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/internal/frame"
	"godwit.dev/godwit/internal/reactor/http2"
	"godwit.dev/godwit/internal/session"
)

// client is one godwit.v1.Client/Connect stream: a session's transport with no goroutine and, when idle, no buffer.
type client struct {
	s       *http2.Stream
	session *session.Session
	in      deframer
	gzip    bool
	backlog bool // "in" holds whole messages that came while paused; of the loop alone

	mu     sync.Mutex
	paused bool // the session verifies a hello: what comes is kept
	over   bool // the answer is complete
}

var _ session.Transport = (*client)(nil)

// Header blocks that are the same for everybody.
var (
	answerHead = http2.EncodeBlock(fieldOK, fieldContentType)
	answerEnd  = http2.EncodeBlock(statusFields(nil, status.New(codes.OK, ""))...)
)

func openClient(cfg *Config, s *http2.Stream, h *http2.Headers, gzip bool) http2.StreamHandler {
	s.WriteRaw(answerHead, false) // at once: clients wait for it to know that they are connected
	c := &client{s: s, gzip: gzip}
	c.session = cfg.Hub.Accept(c, sessionPeer(peerOf(s), h.Get))
	return c
}

// Format says that frames are protobuf.
func (c *client) Format() frame.Format { return frame.Proto }

// Name is what metrics call it.
func (c *client) Name() string { return "grpc" }

// Write sends one frame as one message.
func (c *client) Write(head, tail []byte) bool { return c.s.WriteMessage(head, tail) }

// Probe sends a PING on the connection.
func (c *client) Probe() { c.s.Probe() }

// Close ends the call after the goodbye: OK, or UNAUTHENTICATED for one who was refused.
func (c *client) Close(g frame.Goodbye) {
	if c.finish() {
		if g.Refusal {
			c.s.WriteTrailers(statusFields(nil, status.New(codes.Unauthenticated, g.Reason))...)
		} else {
			c.s.WriteRaw(answerEnd, true)
		}
	}
}

// Pause keeps back further frames; the stream's window holds back the client.
func (c *client) Pause() {
	c.mu.Lock()
	c.paused = true
	c.mu.Unlock()
	c.s.Pause()
}

// Resume lets frames come again; those kept back follow from the loop.
func (c *client) Resume() {
	c.mu.Lock()
	c.paused = false
	c.mu.Unlock()
	c.s.Resume()
}

// finish reports, once, that the answer may be ended.
func (c *client) finish() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.over
	c.over = true
	return !was
}

func (c *client) stopped() (paused, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paused, c.over
}

// Data takes bytes from the client.
func (c *client) Data(b []byte) {
	paused, over := c.stopped()
	switch {
	case over:
	case paused:
		c.keep(b)
	case c.backlog: // resumed a moment ago, and Resumed still to come
		c.keep(b)
		c.Resumed()
	default:
		c.frames(b)
	}
}

// keep holds bytes back. What is on its way when the window closes is all that can come.
func (c *client) keep(b []byte) {
	if !c.s.Hold(len(b)) {
		c.fail(status.Convert(errHeld))
		return
	}
	c.in.buf = append(c.in.buf, b...)
	c.backlog = true
}

// Resumed handles what was kept back.
func (c *client) Resumed() {
	if paused, over := c.stopped(); paused || over || !c.backlog {
		return
	}
	b := c.in.buf
	c.in.buf, c.backlog = nil, false
	c.s.Hold(-len(b))
	c.frames(b)
}

// frames hands the complete frames in b to the session and keeps the rest.
func (c *client) frames(b []byte) {
	for {
		m, rest, ok, err := c.in.take(c.s, b, maxClientFrame)
		switch {
		case err != nil || !ok:
		case m.packed && !c.gzip:
			err = errPacked
		case m.packed:
			m.b, err = inflate(m.b, maxClientFrame)
		}
		if err != nil {
			c.fail(statusOf(err))
			return
		}
		if !ok {
			return
		}
		handle(c.session, m.b)
		if paused, over := c.stopped(); paused || over {
			if !over && len(rest) > 0 {
				c.keep(rest)
			}
			return
		}
		b = rest
	}
}

var decoded = sync.Pool{New: func() any { return new(frame.Client) }}

// handle decodes one frame and hands it to its session.
func handle(s *session.Session, msg []byte) {
	f, _ := decoded.Get().(*frame.Client)
	defer decoded.Put(f)
	if err := frame.DecodeProto(msg, f); err != nil {
		var bad *frame.Error
		if !errors.As(err, &bad) {
			bad = &frame.Error{Code: "bad_frame", Message: err.Error()}
		}
		s.Bad(bad)
		return
	}
	s.Frame(f)
}

// fail ends the call for what the client did; Closed follows.
func (c *client) fail(st *status.Status) {
	if c.finish() {
		c.s.WriteTrailers(statusFields(nil, st)...)
	}
}

// HalfClosed changes nothing: a client that sends nothing more goes on to receive, until it leaves.
func (c *client) HalfClosed() {}

// Drained tells the session that there is room again.
func (c *client) Drained() { c.session.Drained() }

// Alive passes on the answer to a probe.
func (c *client) Alive() { c.session.Alive() }

// Closed ends the session.
func (c *client) Closed(error) {
	c.finish()
	c.in.drop(c.s)
	c.session.Closed()
}
