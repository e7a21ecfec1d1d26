package mqttgate

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/websocket"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/problem"
)

// Subprotocol is that of MQTT over WebSocket (section 6).
const Subprotocol = "mqtt"

// socket is a client whose packets come in binary messages of a WebSocket, cut anywhere.
type socket struct {
	conn
	parser websocket.Parser
	rest   []byte // of the messages so far: not a whole packet yet, or not read yet
	ended  error  // why the connection ends once its handler returns
}

var (
	_ reactor.Handler = (*socket)(nil)
	_ websocket.Sink  = (*socket)(nil)
)

// ServeHTTP upgrades a request to a WebSocket.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := gateway.CheckUpgrade(w, r, g.cfg.Access)
	if err == nil && !gateway.HasToken(r.Header["Sec-Websocket-Protocol"], Subprotocol) {
		err = problem.Subprotocol.With("offer the subprotocol " + Subprotocol)
	}
	if err != nil {
		gateway.Fail(w, err)
		return
	}
	peer := gateway.Peer(r)
	gateway.Upgrade(w, r, g.cfg.Reactor, g.cfg.Log, func(p string) bool { return p == Subprotocol }, func(rc *reactor.Conn, _ string) reactor.Handler { return g.openSocket(rc, peer) })
}

func (g *Gateway) openSocket(rc *reactor.Conn, peer session.Peer) *socket {
	s := &socket{conn: conn{gate: g, out: rc}, parser: websocket.Parser{MaxMessage: maxPacket}}
	s.set(framed)
	s.sess = g.cfg.Hub.Accept(&s.conn, peer)
	return s
}

// Data implements reactor.Handler.
func (s *socket) Data(b []byte) (int, error) {
	s.ended = nil
	used, err := s.parser.Feed(b, s)
	if fault, ok := errors.AsType[*websocket.CloseError](err); ok {
		s.out.Write(websocket.AppendClose(nil, fault.Code, fault.Reason), nil)
		s.out.CloseAfterFlush(err)
		return len(b), nil
	}
	return used, s.ended
}

// Message implements websocket.Sink.
func (s *socket) Message(op websocket.Opcode, p []byte) bool {
	if op != websocket.Binary {
		s.fail(broken(wire.ProtocolError, "MQTT over WebSocket comes in binary messages"))
		return false
	}
	if len(s.rest) > 0 {
		s.rest = append(s.rest, p...)
		p = s.rest
	}
	return s.feed(p)
}

// feed passes bytes on, and keeps what is not used.
func (s *socket) feed(b []byte) (more bool) {
	used, err := s.conn.Data(b)
	s.rest = bytes.Clone(b[used:])
	if err != nil {
		s.hangUp(err)
		return false
	}
	return !s.has(ended | verifying | congested)
}

// Tick implements reactor.Handler: the reactor does not know of bytes that wait here.
func (s *socket) Tick(now time.Time) {
	s.conn.Tick(now)
	if len(s.rest) > 0 && !s.has(ended|verifying|congested) {
		s.feed(s.rest)
	}
}

// Ping implements websocket.Sink.
func (s *socket) Ping(p []byte) {
	s.sess.Alive()
	s.out.Write(websocket.AppendFrame(nil, websocket.Pong, p), nil)
}

// Pong implements websocket.Sink.
func (s *socket) Pong([]byte) { s.sess.Alive() }

// CloseFrame implements websocket.Sink.
func (s *socket) CloseFrame(uint16, string) { s.hangUp(io.EOF) }

// writeFramed sends bytes as one binary message.
func (c *conn) writeFramed(first, shared []byte) bool {
	b, _ := c.gate.heads.Get().(*[]byte)
	*b = append(websocket.AppendHeader((*b)[:0], websocket.Binary, len(first)+len(shared)), first...)
	taken := c.out.Write(*b, shared)
	if cap(*b) <= keptHead {
		c.gate.heads.Put(b)
	}
	return taken
}

// readOn lets the reactor read again.
func (c *conn) readOn() {
	c.out.Resume()
	if c.has(framed) {
		c.out.SetTimer(soon) // for bytes that wait in the socket
	}
}
