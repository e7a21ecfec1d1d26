package pushgate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/websocket"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/problem"
)

// Subprotocol is that of devices.
const Subprotocol = "push-notification"

// conn is one device: the reactor's handler, the parser's sink and the session's transport in one small struct, because an idle connection costs
// little else.
type conn struct {
	gate   *Gateway
	out    *reactor.Conn
	sess   *session.Session
	parser websocket.Parser
	uaid   string // until the answer to the hello
	device string // name of the mailbox; set by Vouch
	origin string // of the push endpoints that it gets
	is     atomic.Uint32
	pinged uint32 // when its last ping came, in milliseconds since the gateway began; 0: none has come
}

var (
	_ reactor.Handler   = (*conn)(nil)
	_ websocket.Sink    = (*conn)(nil)
	_ session.Transport = (*conn)(nil)
	_ session.Corker    = (*conn)(nil)
	_ session.Voucher   = (*conn)(nil)
)

// Flags of a connection.
const (
	said      uint32 = 1 << iota // its hello has come
	verifying                    // nothing is read while the hello is checked
	changing                     // nothing is read while a registration is carried out
	served                       // a message was written to it
	ended                        // nothing more is read
)

func (c *conn) has(flag uint32) bool { return c.is.Load()&flag != 0 }
func (c *conn) set(flag uint32)      { c.is.Or(flag) }
func (c *conn) unset(flag uint32)    { c.is.And(^flag) }

var (
	errGoodbye = errors.New("the session has ended")
	errPings   = errors.New("pings come too fast: pause a second at least")
)

// codePings is the close code for pings that come too fast, which devices know from Mozilla's push service.
const codePings = 4774

// anyOrigin admits pages of every origin: a device's uaid is in its message and not in a cookie, so a page gains nothing by the address from which it
// is shown. Firefox itself states the push service's URL.
type anyOrigin struct{}

func (anyOrigin) Origin(string, string, string) bool { return true }

// ServeHTTP upgrades a device's request to a WebSocket.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := gateway.CheckUpgrade(w, r, anyOrigin{})
	if offered := r.Header["Sec-Websocket-Protocol"]; err == nil && len(offered) > 0 && !gateway.HasToken(offered, Subprotocol) {
		err = problem.Subprotocol.With("offer the subprotocol " + Subprotocol + ", or none")
	}
	if err != nil {
		gateway.Fail(w, err)
		return
	}
	peer, own := session.Peer{Addr: gateway.Peer(r).Addr}, g.ownOrigin(r)
	gateway.Upgrade(w, r, g.cfg.Reactor, g.cfg.Log, func(p string) bool { return p == Subprotocol }, func(rc *reactor.Conn, _ string) reactor.Handler {
		c := &conn{gate: g, out: rc, parser: websocket.Parser{MaxMessage: maxClientMessage}, origin: own}
		c.sess = g.cfg.Hub.Accept(c, peer)
		rc.SetTimer(helloTime)
		return c
	})
}

// Data implements reactor.Handler.
func (c *conn) Data(b []byte) (int, error) {
	used, err := c.parser.Feed(b, c)
	if fault, ok := errors.AsType[*websocket.CloseError](err); ok {
		c.end(fault.Code, fault.Reason, err)
		return len(b), nil
	}
	return used, err
}

// Message implements websocket.Sink.
func (c *conn) Message(_ websocket.Opcode, p []byte) bool {
	m, err := parse(p)
	if err == nil {
		err = c.handle(&m)
	}
	if err != nil {
		c.gate.counts.broken.Inc()
		c.set(ended)
		code := uint16(websocket.CodePolicyViolation)
		if errors.Is(err, errPings) {
			code = codePings
		}
		c.end(code, err.Error(), err)
	}
	return !c.has(verifying | changing | ended)
}

// handle carries out a message.
func (c *conn) handle(m *message) error {
	switch {
	case m.Type == typeHello && c.has(said):
		return errors.New("a second hello")
	case m.Type == typeHello:
		c.hello(m)
		return nil
	case !c.has(said):
		return errors.New("a device begins with hello")
	}
	switch m.Type {
	case typePing:
		return c.ping()
	case typeAck:
		c.ack(m.Updates)
	case typeNack:
		c.nack(m)
	case typeRegister, typeUnregister:
		c.sess.Alive()
		c.change(m)
	case typeBroadcast:
		c.sess.Alive()
		c.send(encode(broadcastAnswer{Type: "broadcast", Broadcasts: map[string]string{}}))
	default: // of a newer client
		c.sess.Bad(&frame.Error{Code: frame.CodeUnsupported, Message: "an unknown messageType"})
	}
	return nil
}

// ping answers a ping. A device that pings without a pause is closed, as at Mozilla's push service: each ping costs an answer, and its battery more.
func (c *conn) ping() error {
	now := uint32(time.Since(c.gate.began)/time.Millisecond) + 1 // it begins anew after 49 days
	if c.pinged != 0 && time.Duration(now-c.pinged)*time.Millisecond < c.gate.cfg.PingPause {
		return errPings
	}
	c.pinged = now
	c.sess.Alive()
	c.send(emptyMessage)
	return nil
}

// hello opens the session.
func (c *conn) hello(m *message) {
	c.set(said)
	c.uaid = m.UAID
	c.sess.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{App: App, Heartbeat: c.gate.cfg.Beat, Quiet: true, Fleeting: true}})
}

// ack settles messages: a message that the device cannot use would be of no more use later.
func (c *conn) ack(list []ack) {
	ids := make([][]byte, 0, len(list))
	for _, a := range list {
		c.gate.counts.ack(a.Code)
		ids = append(ids, []byte(a.Version))
	}
	if len(ids) > 0 {
		c.sess.Frame(&frame.Client{Kind: frame.KindAck, IDs: ids})
	}
}

// nack postpones a message.
func (c *conn) nack(m *message) {
	c.gate.counts.nacks.Inc()
	if m.Version != "" {
		c.sess.Frame(&frame.Client{Kind: frame.KindNack, IDs: [][]byte{[]byte(m.Version)}})
	}
}

// send writes one text message.
func (c *conn) send(b []byte) bool {
	return c.out.Write(websocket.AppendHeader(make([]byte, 0, websocket.MaxHeader), websocket.Text, len(b)), b)
}

// Ping implements websocket.Sink.
func (c *conn) Ping(p []byte) {
	c.sess.Alive()
	var buf [websocket.MaxHeader + 125]byte
	c.out.Write(websocket.AppendFrame(buf[:0], websocket.Pong, p), nil)
}

// Pong implements websocket.Sink.
func (c *conn) Pong([]byte) { c.sess.Alive() }

// CloseFrame implements websocket.Sink: it answers the peer's close with the same code. The session ends before the device can see the end of its
// connection, so that a message with TTL 0 is not taken for it any more; and what it has acknowledged is stored before, so that it does not come again.
func (c *conn) CloseFrame(code uint16, _ string) {
	c.sess.Closed()
	leave := func() { c.end(code, "", io.EOF) }
	if !c.has(served) || !c.gate.later.Add(c.device, func() { c.gate.storeAcks(c.device); leave() }) {
		leave()
	}
}

// storeAcks returns once the acknowledgements of a device that have come so far are on disk, or cannot be stored now. They lie in a queue, and what
// follows them there is stored with them.
func (g *Gateway) storeAcks(device string) {
	ctx, cancel := context.WithTimeout(g.ctx, patience)
	defer cancel()
	_, _ = g.cfg.Mailbox.Ack(ctx, App, device, oneSession, []string{"none"}) // a message that comes again is no loss
}

// end sends a close frame and closes the connection.
func (c *conn) end(code uint16, reason string, err error) {
	c.out.Write(websocket.AppendClose(nil, code, reason), nil)
	c.out.CloseAfterFlush(err)
}

// Drained implements reactor.Handler.
func (c *conn) Drained() { c.sess.Drained() }

// Tick implements reactor.Handler: a device that has not said hello is sent away.
func (c *conn) Tick(time.Time) {
	if !c.has(said) {
		c.sess.Goodbye(frame.Goodbye{Reason: "hello_timeout", Refusal: true})
	}
}

// Closed implements reactor.Handler.
func (c *conn) Closed(error) {
	c.set(ended)
	c.sess.Closed()
}

// Format implements session.Transport.
func (c *conn) Format() frame.Format { return format }

// Write implements session.Transport.
func (c *conn) Write(k frame.ServerKind, _, tail []byte) bool {
	switch k {
	case frame.ServerNotification:
		c.set(served)
		var head [websocket.MaxHeader]byte
		return c.out.Write(websocket.AppendHeader(head[:0], websocket.Text, len(tail)), tail)
	case frame.ServerWelcome:
		c.gate.counts.hellos.Inc()
		taken := c.send(encode(helloAnswer{Type: typeHello, UAID: c.uaid, Status: http.StatusOK, WebPush: true, Broadcasts: map[string]string{}}))
		c.uaid = ""
		return taken
	default:
		return true
	}
}

// Cork implements session.Corker.
func (c *conn) Cork() { c.out.Cork() }

// Uncork implements session.Corker.
func (c *conn) Uncork() { c.out.Uncork() }

// Queued is how many bytes wait until the device reads them.
func (c *conn) Queued() int { return c.out.Queued() }

var ping = websocket.AppendHeader(nil, websocket.Ping, 0)

// Probe implements session.Transport.
func (c *conn) Probe() { c.out.Write(ping, nil) }

// Close implements session.Transport.
func (c *conn) Close(g frame.Goodbye) {
	c.set(ended)
	code := uint16(websocket.CodeTryAgainLater)
	switch g.Outlook() {
	case frame.Never:
		code = websocket.CodePolicyViolation
	case frame.Pointless:
		code = websocket.CodeNormal
	case frame.Elsewhere:
		code = websocket.CodeServiceRestart
	}
	c.end(code, g.Reason, errGoodbye)
}

// Pause implements session.Transport.
func (c *conn) Pause() {
	c.set(verifying)
	c.out.Pause()
}

// Resume implements session.Transport.
func (c *conn) Resume() {
	c.unset(verifying)
	c.readOn()
}

// readOn lets the reactor read again unless something else keeps it from that.
func (c *conn) readOn() {
	if !c.has(verifying | changing) {
		c.out.Resume()
	}
}

// Name implements session.Transport.
func (c *conn) Name() string { return "push" }
