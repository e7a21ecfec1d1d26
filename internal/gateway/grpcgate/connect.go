package grpcgate

import (
	"errors"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/internal/engine/reactor/http2"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// client is one godwit.v1.Client/Connect stream: a session's transport with no goroutine and, when idle, no buffer.
type client struct {
	s       *http2.Stream
	session *session.Session
	in      *deframer // nil: nothing is kept; of the loop alone
	state   atomic.Uint32
	gzip    bool
	backlog bool // "in" holds whole messages that came while paused; of the loop alone
}

// States of a client; both bits may be set.
const (
	clientPaused uint32 = 1 << iota // the session verifies a hello: further bytes are kept
	clientOver                      // the answer is complete
)

var (
	_ session.Transport = (*client)(nil)
	_ session.Corker    = (*client)(nil)
)

// Header blocks that are the same for everybody.
var (
	answerHead = http2.EncodeBlock(fieldOK, fieldContentType)
	answerEnd  = http2.EncodeBlock(statusFields(nil, status.New(codes.OK, ""))...)
)

func openClient(cfg *Config, s *http2.Stream, h *http2.Headers, gzip bool) http2.StreamHandler {
	s.WriteRaw(answerHead, false) // sent at once: clients take it as the sign that they are connected
	c := &client{s: s, gzip: gzip}
	c.session = cfg.Hub.Accept(c, streamPeer(s, h.Get))
	return c
}

// Format says that frames are protobuf.
func (c *client) Format() frame.Format { return frame.Proto }

// Name is the transport's name in metrics.
func (c *client) Name() string { return "grpc" }

// Write sends one frame as one message.
func (c *client) Write(_ frame.ServerKind, head, tail []byte) bool {
	return c.s.WriteMessage(head, tail)
}

// Cork has messages wait for Uncork.
func (c *client) Cork() { c.s.Cork() }

// Uncork sends what has waited.
func (c *client) Uncork() { c.s.Uncork() }

// Queued is how many bytes wait for the client to take them.
func (c *client) Queued() int { return c.s.Queued() }

// Probe sends a PING on the connection, and an empty frame on the stream: proxies answer PINGs themselves, and end idle streams. A
// pong would not do, since clients count pongs as answers to their own pings.
func (c *client) Probe() {
	c.s.Probe()
	if c.s.Queued() == 0 { // else something is on its way
		c.s.WriteMessage(nil, nil)
	}
}

// Close ends the call after the goodbye: with OK, or UNAUTHENTICATED if the client was refused.
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
	c.state.Or(clientPaused)
	c.s.Pause()
}

// Resume lets frames come again; those kept back follow from the loop.
func (c *client) Resume() {
	c.state.And(^clientPaused)
	c.s.Resume()
}

// finish reports, once, that the answer may be ended.
func (c *client) finish() bool { return c.state.Or(clientOver)&clientOver == 0 }

func (c *client) stopped() (paused, over bool) {
	st := c.state.Load()
	return st&clientPaused != 0, st&clientOver != 0
}

// Data takes bytes from the client.
func (c *client) Data(b []byte) { c.data(b, frame.Proto) }

// data takes bytes of frames in a format.
func (c *client) data(b []byte, f frame.Format) {
	paused, over := c.stopped()
	switch {
	case over:
	case paused:
		c.keep(b)
	case c.backlog: // resumed a moment ago, and the call of Resumed is still to come
		c.keep(b)
		c.resumed(f)
	default:
		c.frames(b, f)
	}
}

// keep holds bytes back. Once the window has closed, only bytes that are on their way can still come.
func (c *client) keep(b []byte) {
	if !c.s.Hold(len(b)) {
		c.fail(status.Convert(errHeld))
		return
	}
	if c.in == nil {
		c.in = &deframer{}
	}
	c.in.buf = append(c.in.buf, b...)
	c.backlog = true
}

// Resumed handles the bytes that were held back.
func (c *client) Resumed() { c.resumed(frame.Proto) }

func (c *client) resumed(f frame.Format) {
	if paused, over := c.stopped(); paused || over || !c.backlog {
		return
	}
	b := c.in.buf
	c.in, c.backlog = nil, false
	c.s.Hold(-len(b))
	c.frames(b, f)
}

// frames hands the complete frames in b to the session and keeps the rest.
func (c *client) frames(b []byte, f frame.Format) {
	var in deframer // a deframer goes to the heap only if it has to keep bytes
	if c.in != nil {
		in = *c.in
	}
	defer func() { c.store(in) }()
	for {
		m, rest, ok, err := in.take(c.s, b, maxClientFrame)
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
		handle(c.session, m.b, f)
		if paused, over := c.stopped(); paused || over {
			switch {
			case over || len(rest) == 0:
			case c.s.Hold(len(rest)):
				in.buf, c.backlog = append(in.buf, rest...), true
			default:
				c.fail(status.Convert(errHeld))
			}
			return
		}
		b = rest
	}
}

// store keeps what a deframer holds, if anything.
func (c *client) store(in deframer) {
	switch {
	case len(in.buf) == 0:
		c.in = nil
	case c.in == nil:
		kept := in
		c.in = &kept
	default:
		*c.in = in
	}
}

var decoded = sync.Pool{New: func() any { return new(frame.Client) }}

// handle decodes one frame and hands it to its session.
func handle(s *session.Session, msg []byte, format frame.Format) {
	f, _ := decoded.Get().(*frame.Client)
	defer decoded.Put(f)
	if err := format.Decode(msg, f); err != nil {
		var bad *frame.Error
		if !errors.As(err, &bad) {
			bad = &frame.Error{Code: "bad_frame", Message: err.Error()}
		}
		s.Bad(bad)
		return
	}
	if f.Kind == 0 {
		s.Alive() // a frame of a later version, or an empty one
		return
	}
	s.Frame(f)
}

// fail ends the call because of the client's error; Closed follows.
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
	if c.in != nil {
		c.in.drop(c.s)
		c.in = nil
	}
	c.session.Closed()
}
