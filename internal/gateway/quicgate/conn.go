package quicgate

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// conn is one session over WebTransport.
type conn struct {
	gate      *Gateway
	line      *line
	wt        *quic.Stream // of the request; its id is the session's. Set by line.ready, under line.mu. HTTP/3's stream would hold the request
	str       *quic.Stream // with the frames; set by begin
	sess      *session.Session
	peer      session.Peer
	text      bool          // JSON; false: protobuf
	datagrams bool          // messages of topics may go as datagrams
	late      *time.Timer   // until the client's stream is there; under mu
	wake      chan struct{} // has a token when a pause has ended
	paused    atomic.Bool
	in        reader
	said      bool // the hello has been passed on

	mu   sync.Mutex
	out  outbox
	code uint32 // with which the session is closed
	why  string // its reason
	by   party  // who closed it
	is   state
}

// state is a set of flags under conn.mu.
type state uint16

const (
	begun   state = 1 << iota // the client's stream is there
	writing                   // a goroutine sends what waits
	refused                   // a write was refused: the session waits for Drained
	closing                   // nothing more is written than what waits
	flushed                   // all was written, and the server's direction of the stream has ended
	readAll                   // the client's direction has ended
	closed                    // the session is closed
	told                      // the client has closed it, so it needs no close by the server
)

// party is who ended a session.
type party string

const (
	client party = "client"
	server party = "server"
	nobody party = "lost"
)

var (
	_ session.Transport = (*conn)(nil)
	_ session.Corker    = (*conn)(nil)
)

// begin takes the client's stream. False: it has one, or is over. A second stream ends the session.
func (c *conn) begin(str *quic.Stream) bool {
	c.mu.Lock()
	if c.is&(begun|closed) != 0 {
		second := c.is&closed == 0
		c.mu.Unlock()
		if second {
			c.refuse(codeSecondStream, secondStream)
		}
		return false
	}
	c.is |= begun
	c.str = str
	c.late.Stop()
	c.mu.Unlock()
	c.sess = c.gate.cfg.Hub.Accept(c, c.peer)
	c.peer = session.Peer{}
	c.gate.counts.sessions.Inc()
	return true
}

// read passes frames to the session until the stream ends. It goes on in another goroutine after the hello, which takes a deep stack: an idle one has two
// kilobytes.
func (c *conn) read() {
	if c.pass() {
		c.line.running.Go(c.read)
		return
	}
	c.sess.Closed()
}

// pass passes frames to the session. True: the first have been passed on, and more may come.
func (c *conn) pass() (more bool) {
	for {
		n, err := c.str.Read(c.in.space())
		if n > 0 {
			c.line.moved()
			if wrong := c.in.took(n, c.frame); wrong != nil {
				c.wrong(wrong)
				_, _ = io.Copy(io.Discard, c.str) // until the client or the linger ends it
				c.done()
				return false
			}
		}
		switch {
		case err != nil:
			c.ended(err)
			return false
		case !c.said && c.in.between():
			c.said = true
			return true
		}
	}
}

// errStop ends reading: the session is closing for another reason.
var errStop = errors.New("the session is closing")

// frame handles one frame of the client.
func (c *conn) frame(b []byte) error {
	if c.line.look(c); c.finished() {
		return errStop
	}
	if len(b) == 0 {
		c.sess.Alive()
		return nil
	}
	f, _ := c.gate.clients.Get().(*frame.Client)
	defer c.gate.clients.Put(f)
	var bad *frame.Error
	switch err := c.Format().Decode(b, f); {
	case errors.As(err, &bad):
		c.sess.Bad(bad)
	case f.Kind == 0:
		c.sess.Alive()
	default:
		c.sess.Frame(f)
	}
	for c.paused.Load() {
		if <-c.wake; c.finished() {
			return errStop
		}
	}
	return nil
}

// wrong ends a session whose client has broken the rules of the stream.
func (c *conn) wrong(err error) {
	if errors.Is(err, errTooLarge) {
		c.sess.Goodbye(frame.Goodbye{Reason: tooLarge, Refusal: true})
	}
}

// ended handles the end of the client's direction of the stream.
func (c *conn) ended(err error) {
	switch {
	case !errors.Is(err, io.EOF):
		c.abort(err) // it was reset, or the connection is lost
	case c.in.between():
		c.sess.Closed()
		c.leave(codeNormal, "", client)
		c.done()
	default:
		c.leave(codeProtocol, cutFrame, server)
		c.done()
	}
}

// left handles the client's close of the session. An error: the close was broken off, or the connection is lost.
func (c *conn) left(code uint32, why string, err error) {
	if err != nil {
		c.abort(err)
		return
	}
	c.mu.Lock()
	c.decide(code, why, client)
	c.is |= told
	c.mu.Unlock()
	c.finish()
}

// decide settles how the session ends, unless that is settled. c.mu is held.
func (c *conn) decide(code uint32, why string, by party) (first bool) {
	if c.is&(closing|closed) != 0 {
		return false
	}
	c.is |= closing
	c.code, c.why, c.by = code, why, by
	return true
}

// done records the end of the client's direction.
func (c *conn) done() {
	c.mu.Lock()
	c.is |= readAll
	all := c.is&flushed != 0
	c.mu.Unlock()
	if all {
		c.finish()
	}
}

// refuse closes the session at once with a code of its own.
func (c *conn) refuse(code uint32, why string) {
	c.mu.Lock()
	c.decide(code, why, server)
	c.mu.Unlock()
	c.finish()
}

// leave ends the session after all that waits was written.
func (c *conn) leave(code uint32, why string, by party) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.decide(code, why, by) {
		time.AfterFunc(flushFor, c.finish)
		c.send()
	}
}

// Close implements session.Transport.
func (c *conn) Close(g frame.Goodbye) { c.leave(closeCode(g), g.Reason, server) }

// closeCode is that of WebSocket.
func closeCode(g frame.Goodbye) uint32 {
	if g.Reason == tooLarge {
		return codeTooBig
	}
	switch g.Outlook() {
	case frame.Never:
		return 1008
	case frame.Pointless:
		return codeNormal
	case frame.Elsewhere:
		return 1012
	default:
		return 1013
	}
}

// finish closes the session with its code. The goodbye has reached the client, or its time is over.
func (c *conn) finish() {
	c.mu.Lock()
	if c.is&closed != 0 {
		c.mu.Unlock()
		return
	}
	c.is |= closed | closing
	is, str := c.is, c.str
	graceful := is&(flushed|readAll) == flushed|readAll
	c.drop()
	c.late.Stop()
	c.mu.Unlock()
	_ = c.wt.SetReadDeadline(time.Now()) // watch must not read the client's answer to the close, see quitLater
	if is&told == 0 {
		if err := c.wt.TryWriteAll(closeCapsule(c.code, c.why)); err != nil {
			c.wt.CancelWrite(codeGone)
		}
	}
	if is&begun != 0 {
		c.gate.ended(c)
	}
	_ = c.wt.Close() // the connection's end ends it too
	if str != nil && !graceful {
		reject(str, codeGone)
	}
	c.nudge()
	c.line.quitLater(c)
}

// abort ends a session whose stream or connection is lost, or whose client has closed the connection.
func (c *conn) abort(err error) {
	by := nobody
	if end, ok := errors.AsType[*quic.ApplicationError](err); ok && end.Remote {
		by = client
	}
	c.mu.Lock()
	c.decide(codeNormal, "", by)
	c.mu.Unlock()
	c.finish()
}

func (c *conn) finished() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.is&closed != 0
}

// Format implements session.Transport.
func (c *conn) Format() frame.Format {
	if c.text {
		return frame.JSON
	}
	return frame.Proto
}

// Pause implements session.Transport.
func (c *conn) Pause() { c.paused.Store(true) }

// Resume implements session.Transport.
func (c *conn) Resume() {
	c.paused.Store(false)
	c.nudge()
}

// nudge makes the reader look whether its pause has ended.
func (c *conn) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Name implements session.Transport.
func (c *conn) Name() string { return "quic" }

// Probe implements session.Transport: an empty frame, whose acknowledgement by the client's QUIC is a sign of life.
func (c *conn) Probe() {
	past := c.line.conn.ConnectionStats().PacketsReceived
	c.mu.Lock()
	c.put(item{})
	c.mu.Unlock()
	time.AfterFunc(c.gate.cfg.answer, func() {
		if c.line.look(c); c.line.conn.ConnectionStats().PacketsReceived != past {
			c.sess.Alive()
		}
	})
}
