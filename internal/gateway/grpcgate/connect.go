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
	in      *deframer // nil: no bytes are stored; used only by the loop
	state   atomic.Uint32
	gzip    bool
	backlog bool // "in" holds whole messages that arrived while paused; used only by the loop
}

// States of a client; both bits may be set.
const (
	clientPaused uint32 = 1 << iota // the session verifies a hello: further bytes are stored
	clientOver                      // the answer is complete
)

var (
	_ session.Transport = (*client)(nil)
	_ session.Corker    = (*client)(nil)
)

// Header blocks that are the same for all calls.
var (
	answerHead = http2.EncodeBlock(fieldOK, fieldContentType)
	answerEnd  = http2.EncodeBlock(statusFields(nil, status.New(codes.OK, ""))...)
)

func openClient(cfg *Config, s *http2.Stream, h *http2.Headers, gzip bool) http2.StreamHandler {
	s.WriteRaw(answerHead, false) // sent at once: clients take the headers as the sign that they are connected
	c := &client{s: s, gzip: gzip}
	c.session = cfg.Hub.Accept(c, streamPeer(s, h.Get))
	return c
}

// Format returns protobuf as the format of frames.
func (c *client) Format() frame.Format { return frame.Proto }

// Name is the transport's name in metrics.
func (c *client) Name() string { return "grpc" }

// Write sends one frame as one message.
func (c *client) Write(_ frame.ServerKind, head, tail []byte) bool {
	return c.s.WriteMessage(head, tail)
}

// Cork holds back messages until Uncork.
func (c *client) Cork() { c.s.Cork() }

// Uncork sends what has waited.
func (c *client) Uncork() { c.s.Uncork() }

// Queued is how many bytes wait until the client reads them.
func (c *client) Queued() int { return c.s.Queued() }

// Probe sends a PING on the connection, and an empty frame on the stream: proxies answer PINGs themselves, and end idle streams. A pong
// would not serve, since clients count pongs as answers to their own pings.
func (c *client) Probe() {
	c.s.Probe()
	if c.s.Queued() == 0 { // a non-empty queue serves as a probe already
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

// Pause stores further frames; the stream's window holds back the client.
func (c *client) Pause() {
	c.state.Or(clientPaused)
	c.s.Pause()
}

// Resume accepts frames again; the loop then handles the stored ones.
func (c *client) Resume() {
	c.state.And(^clientPaused)
	c.s.Resume()
}

// finish returns true once: the answer may be ended.
func (c *client) finish() bool { return c.state.Or(clientOver)&clientOver == 0 }

func (c *client) stopped() (paused, over bool) {
	st := c.state.Load()
	return st&clientPaused != 0, st&clientOver != 0
}

// Data handles bytes from the client.
func (c *client) Data(b []byte) { c.data(b, frame.Proto) }

// data handles bytes of frames in a format.
func (c *client) data(b []byte, f frame.Format) {
	paused, over := c.stopped()
	switch {
	case over:
	case paused:
		c.keep(b)
	case c.backlog: // resumed a moment ago; the loop has not called Resumed yet
		c.keep(b)
		c.resumed(f)
	default:
		c.frames(b, f)
	}
}

// keep stores bytes. Once the window has closed, only bytes already under way can arrive.
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

// Resumed handles the bytes that were stored.
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
	var in deframer // a deframer is moved to the heap only if it has to store bytes
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

// store keeps the incomplete message of a deframer, if there is one.
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

// fail ends the call with an error that the client caused; Closed follows.
func (c *client) fail(st *status.Status) {
	if c.finish() {
		c.s.WriteTrailers(statusFields(nil, st)...)
	}
}

// HalfClosed does nothing: a client that sends no more frames still receives, until it leaves.
func (c *client) HalfClosed() {}

// Drained reports to the session that the queue has room again.
func (c *client) Drained() { c.session.Drained() }

// Alive passes the answer to a probe on to the session.
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
