package wsgate

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/websocket"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// conn is one client: the reactor's handler, the parser's sink and the session's transport in one small struct,
// because an idle connection costs little else.
type conn struct {
	gate   *Gateway
	out    *reactor.Conn
	sess   *session.Session
	parser websocket.Parser
	text   bool // the client uses JSON in text messages; false: protobuf in binary messages
	paused atomic.Bool
}

var (
	_ reactor.Handler   = (*conn)(nil)
	_ websocket.Sink    = (*conn)(nil)
	_ session.Transport = (*conn)(nil)
	_ session.Corker    = (*conn)(nil)
)

// Reasons to end connections whose use of WebSocket is not supported; each has a close code of its own.
const (
	tooLarge  = "message_too_large"
	wrongType = "wrong_message_type"
)

// errGoodbye is why a connection closes after the server's goodbye.
var errGoodbye = errors.New("the session has ended")

// Data implements reactor.Handler.
func (c *conn) Data(b []byte) (int, error) {
	used, err := c.parser.Feed(b, c)
	var fault *websocket.CloseError
	if errors.As(err, &fault) {
		if fault.Code == websocket.CodeTooBig {
			c.sess.Goodbye(frame.Goodbye{Reason: tooLarge, Refusal: true})
		} else {
			c.end(fault.Code, fault.Reason, err)
		}
		return len(b), nil
	}
	return used, err
}

// Message implements websocket.Sink.
func (c *conn) Message(op websocket.Opcode, p []byte) bool {
	if (op == websocket.Text) != c.text {
		want := "binary messages: the subprotocol is " + ProtocolProto
		if c.text {
			want = "text messages: the subprotocol is " + ProtocolJSON
		}
		c.sess.Bad(&frame.Error{Code: frame.CodeBadFrame, Message: "send " + want})
		c.sess.Goodbye(frame.Goodbye{Reason: wrongType, Refusal: true})
		return false
	}
	f, _ := c.gate.clients.Get().(*frame.Client)
	defer c.gate.clients.Put(f)
	var bad *frame.Error
	switch err := c.Format().Decode(p, f); {
	case errors.As(err, &bad):
		c.sess.Bad(bad)
	case f.Kind == 0:
		c.sess.Alive()
	default:
		c.sess.Frame(f)
	}
	return !c.paused.Load()
}

// Ping implements websocket.Sink.
func (c *conn) Ping(p []byte) {
	c.sess.Alive()
	var buf [websocket.MaxHeader + 125]byte
	c.out.Write(websocket.AppendFrame(buf[:0], websocket.Pong, p), nil)
}

// Pong implements websocket.Sink.
func (c *conn) Pong([]byte) { c.sess.Alive() }

// CloseFrame implements websocket.Sink: it answers the peer's close with the same code.
func (c *conn) CloseFrame(code uint16, _ string) { c.end(code, "", io.EOF) }

// end sends a close frame and closes the connection.
func (c *conn) end(code uint16, reason string, err error) {
	c.out.Write(websocket.AppendClose(nil, code, reason), nil)
	c.out.CloseAfterFlush(err)
}

// Drained implements reactor.Handler.
func (c *conn) Drained() { c.sess.Drained() }

// Tick implements reactor.Handler. Sessions have their own timers.
func (c *conn) Tick(time.Time) {}

// Closed implements reactor.Handler.
func (c *conn) Closed(error) { c.sess.Closed() }

// Format implements session.Transport.
func (c *conn) Format() frame.Format {
	if c.text {
		return frame.JSON
	}
	return frame.Proto
}

// Write implements session.Transport. It puts the WebSocket header before head; tail stays shared.
func (c *conn) Write(_ frame.ServerKind, head, tail []byte) bool {
	b, _ := c.gate.heads.Get().(*[]byte)
	op := websocket.Binary
	if c.text {
		op = websocket.Text
	}
	*b = append(websocket.AppendHeader((*b)[:0], op, len(head)+len(tail)), head...)
	taken := c.out.Write(*b, tail)
	if cap(*b) <= maxHead {
		c.gate.heads.Put(b)
	}
	return taken
}

// maxHead is the most bytes of a buffer that returns to the pool. It keeps out the buffer of a rare long frame, such as a recall of many
// ids.
const maxHead = 4 << 10

// Cork implements session.Corker.
func (c *conn) Cork() { c.out.Cork() }

// Uncork implements session.Corker.
func (c *conn) Uncork() { c.out.Uncork() }

// Queued is how many bytes wait until the client reads them.
func (c *conn) Queued() int { return c.out.Queued() }

var ping = websocket.AppendHeader(nil, websocket.Ping, 0)

// Probe implements session.Transport.
func (c *conn) Probe() { c.out.Write(ping, nil) }

// Close implements session.Transport.
func (c *conn) Close(g frame.Goodbye) {
	c.end(closeCode(g), g.Reason, errGoodbye)
}

// closeCode returns the code by which client libraries decide whether to reconnect: most never reconnect after 1000.
func closeCode(g frame.Goodbye) uint16 {
	switch g.Reason {
	case tooLarge:
		return websocket.CodeTooBig
	case wrongType:
		return websocket.CodeUnsupported
	}
	switch g.Outlook() {
	case frame.Never:
		return websocket.CodePolicyViolation
	case frame.Pointless:
		return websocket.CodeNormal
	case frame.Elsewhere:
		return websocket.CodeServiceRestart
	default:
		return websocket.CodeTryAgainLater
	}
}

// Pause implements session.Transport.
func (c *conn) Pause() {
	c.paused.Store(true)
	c.out.Pause()
}

// Resume implements session.Transport.
func (c *conn) Resume() {
	c.paused.Store(false)
	c.out.Resume()
}

// Name implements session.Transport.
func (c *conn) Name() string { return "ws" }
