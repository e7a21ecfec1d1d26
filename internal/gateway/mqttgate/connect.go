package mqttgate

import (
	"errors"
	"io"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/notify/frame"
)

// connect handles a CONNECT packet: it becomes the hello of the session.
func (c *conn) connect(p wire.Packet) error {
	in := &wire.Connect{}
	c.gate.counts.in[wire.CONNECT].Add(1)
	err := in.Decode(p)
	if unsupported, ok := errors.AsType[*wire.UnsupportedError](err); ok {
		if unsupported.Level > byte(wire.V5) {
			c.set(five)
		}
		c.refuse(wire.UnsupportedVersion, unsupported.Error(), nil)
		return nil
	}
	if in.Version == wire.V5 {
		c.set(five)
	}
	c.set(said)
	if err != nil {
		return err // a *wire.Error
	}
	if in.Properties.Number(wire.RequestProblem, 1) == 0 {
		c.set(brief)
	}
	hello := c.hello(in)
	if reason, why := c.unfit(in, hello); reason != wire.Success {
		c.refuse(reason, why, nil)
		return nil
	}
	if in.HasWill {
		c.more.will = c.gate.willOf(in) // nobody else uses the connection yet
	}
	c.sess.Frame(&frame.Client{Kind: frame.KindHello, Hello: hello})
	return nil
}

// hello makes the hello of a CONNECT packet, and notes what else the packet says.
func (c *conn) hello(in *wire.Connect) *frame.Hello {
	h := &frame.Hello{Device: deviceOf(string(in.ClientID)), Token: string(in.Password), Quiet: true}
	if in.HasUser {
		h.App, h.Recipient = whoOf(string(in.User))
	} else if !in.HasPassword && !certified(c.out) {
		h.Recipient = h.Device // a client of a development server that names only itself
	}
	for _, u := range in.Properties.User {
		switch string(u.Name) {
		case "group":
			h.Group = string(u.Value)
		case "held": // an id of a notification that is still shown
			h.Held = append(h.Held, string(u.Value))
		}
	}
	if len(h.Held) > 0 {
		c.set(recalls) // which may come before a subscription can
	}
	h.Heartbeat = beat(in.KeepAlive)
	expiry := in.Properties.Number(wire.SessionExpiry, 0)
	if in.Version == wire.V311 && !in.Clean {
		expiry = maxExpirySeconds
	}
	if in.Clean {
		c.set(clean)
	}
	var more extra
	more.receive = uint16(in.Properties.Number(wire.ReceiveMaximum, 0)) // of two bytes
	h.Window = int(min(more.receive, frame.MaxWindow))
	if most := in.Properties.Number(wire.AliasMaximum, 0); most > 0 {
		c.set(aliased)
		more.aliasMost = uint16(min(most, maxAliases)) // bounded
	}
	if most := in.Properties.Number(wire.MaximumPacket, 0); most > 0 {
		c.set(limited)
		more.packet = most
	}
	if h.Device == "" && in.Version == wire.V5 {
		h.Device = newClientID()
		more.assigned = h.Device
	}
	if expiry > 0 && h.Device != "" {
		c.set(lasting)
		more.expiry = min(expiry, maxExpirySeconds)
		more.asked = expiry
	}
	h.Fleeting = !c.has(lasting) && (in.Clean || more.assigned != "")
	more.keepAlive = in.KeepAlive
	if in.Properties.Number(wire.RequestResponse, 0) == 1 {
		more.wantsReplies = true
	}
	more.opening, more.hello = true, h
	c.mu.Lock()
	c.more = &more
	c.mu.Unlock()
	return h
}

// beat is the heartbeat of a keep-alive: a session ends after two silent heartbeats, and a client of MQTT after one and a half times its
// keep-alive.
func beat(keepAlive uint16) time.Duration {
	if keepAlive == 0 {
		return maxSilence
	}
	return time.Duration(keepAlive) * time.Second * 3 / 4
}

// unfit returns why a CONNECT packet cannot become a session.
func (c *conn) unfit(in *wire.Connect, h *frame.Hello) (wire.Reason, string) {
	if in.Properties.Has(wire.AuthMethod) {
		return wire.BadAuthMethod, "enhanced authentication is not offered: send a key or token as the password"
	}
	if len(in.ClientID) == 0 && in.Version == wire.V311 && !in.Clean {
		return wire.InvalidClientID, "a session that shall last needs a client id"
	}
	if in.HasWill {
		if reason, why := c.gate.unfitWill(in); reason != wire.Success {
			return reason, why
		}
	}
	if e, ok := errors.AsType[*frame.Error](h.Check()); ok {
		return wire.BadUserPassword, e.Message
	}
	return wire.Success, ""
}

// Verified implements session.Knower: it takes over the rights and the state of a client whose credential was checked.
func (c *conn) Verified(who access.Client, done func(error)) {
	if err := c.verified(who); err != nil {
		done(err)
		return
	}
	c.gate.takeSession(c, who, done)
}

func (c *conn) verified(who access.Client) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.more
	if who.Peek {
		c.set(observer)
	}
	if who.Rights().CanSubscribe(figuresTopic) {
		c.set(watchful)
	}
	if len(who.Publish) > 0 {
		c.set(publishes)
	}
	if cert := access.CertURI(c.out.TLS()); len(who.Publish) > 0 && (m.hello.Token != "" || cert != "") {
		claim := access.Claim{App: who.App, Recipient: who.Recipient, Token: m.hello.Token, Device: who.Device, CertURI: cert}
		m.rights = &rights{key: who.Key, patterns: who.Publish, claim: claim, revision: c.gate.cfg.Access.Revision()}
	}
	if w := m.will; w != nil && !c.rights().allow(w.t, w.rest) {
		return errWill
	}
	m.of = filterdb.Device{App: who.App, Recipient: who.Recipient, Name: who.Device}
	return nil
}

// accept sends the CONNACK that follows the welcome of the session. It leaves once the session is what it was, with all that comes after it: a client
// that knows its session misses nothing of what it has subscribed to.
func (c *conn) accept(w frame.Welcome) {
	c.out.Cork()
	c.set(welcomed)
	c.mu.Lock()
	m := c.more
	present := c.gate.kept.present(m.state)
	var props []byte
	if c.has(five) {
		props = c.gate.connackProperties(c, m, w)
	}
	if !present && w.Registrations > 0 {
		m.discard = true
		c.set(silent)
	}
	c.mu.Unlock()
	c.gate.counts.connects.Add(1)
	c.write(wire.AppendConnack(nil, c.version(), present, wire.Success, props), nil)
}

// connackProperties says what this server offers where it is not what MQTT assumes.
func (g *Gateway) connackProperties(c *conn, m *extra, w frame.Welcome) []byte {
	var p []byte
	if m.asked != m.expiry {
		p = wire.AppendNumber(p, wire.SessionExpiry, m.expiry)
	}
	p = wire.AppendNumber(p, wire.ReceiveMaximum, maxInFlight)
	if !g.cfg.QoS2 {
		p = wire.AppendNumber(p, wire.MaximumQoS, 1)
	}
	p = wire.AppendNumber(p, wire.MaximumPacket, maxPacket)
	if m.assigned != "" {
		p = wire.AppendText(p, wire.AssignedClientID, m.assigned)
	}
	p = wire.AppendNumber(p, wire.AliasMaximum, maxAliases)
	if beat := w.Heartbeat; beat != max(time.Duration(m.keepAlive)*time.Second*3/4, 0) && m.keepAlive > 0 {
		p = wire.AppendNumber(p, wire.ServerKeepAlive, uint32(min((beat*4/3+time.Second-1)/time.Second, 1<<16-1))) // bounded
	}
	if m.wantsReplies {
		p = wire.AppendText(p, wire.ResponseInfo, replyLevel+"/")
	}
	p = wire.AppendUser(p, "session", w.Session)
	p = wire.AppendUser(p, "app", w.App)
	p = wire.AppendUser(p, "recipient", w.Recipient)
	if w.Digest != "" {
		p = wire.AppendUser(p, "digest", w.Digest)
		p = wire.AppendUser(p, "registrations", strconv.Itoa(w.Registrations))
	}
	if in := w.Inbox; in != nil {
		p = wire.AppendUser(p, "unseen", strconv.Itoa(in.Unseen))
		p = wire.AppendUser(p, "unread", strconv.Itoa(in.Unread))
	}
	return p
}

// restore makes the session what it was when its client left, or discards what it does not want back. The hub calls it before the client's
// next packet is read.
func (c *conn) restore() {
	c.mu.Lock()
	m := c.more
	if m == nil || !m.opening {
		c.mu.Unlock()
		return
	}
	m.opening = false
	m.hello = nil
	discard, s, of := m.discard, m.state, m.of
	m.of = filterdb.Device{}
	c.tidy()
	c.mu.Unlock()
	in, _ := c.gate.inputs.Get().(*input)
	defer c.gate.inputs.Put(in)
	if discard {
		in.frame = frame.Client{Kind: frame.KindRegister, Reset: true}
		c.sess.Frame(&in.frame)
	}
	c.releaseOverdue()
	c.restoreQueue(of)
	for _, sub := range c.gate.kept.subscriptions(s) {
		c.grant(&sub, in)
		c.identify(&sub)
	}
}

// disconnected handles a DISCONNECT packet.
func (c *conn) disconnected(p wire.Packet, in *input) error {
	d := &in.disconnect
	if err := d.Decode(c.version(), p); err != nil {
		return err // a *wire.Error
	}
	if d.Properties.Has(wire.SessionExpiry) {
		if err := c.expireIn(d.Properties.Number(wire.SessionExpiry, 0)); err != nil {
			return err
		}
	}
	if d.Reason != wire.WithWill {
		c.set(parted)
	}
	c.sess.Closed() // before the client can see the end of its connection: no member of its queue loses a message to it afterwards
	return io.EOF
}

// expireIn changes how long the session outlasts its connection.
func (c *conn) expireIn(seconds uint32) error {
	if !c.has(lasting) {
		if seconds > 0 {
			return broken(wire.ProtocolError, "DISCONNECT: the session expiry was 0 and cannot be another")
		}
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.more.expiry = min(seconds, maxExpirySeconds)
	return nil
}

// fail ends the connection of a client that broke the protocol.
func (c *conn) fail(err error) {
	reason, why := wire.ProtocolError, err.Error()
	if e, ok := errors.AsType[*wire.Error](err); ok {
		reason = e.Reason
	}
	c.gate.counts.broken.Add(1)
	c.gate.cfg.Log.Debug("MQTT connection ended", "reason", byte(reason), "error", err)
	switch {
	case c.has(welcomed):
		c.end(reason, why, nil)
	case c.has(said | five):
		c.refuse(reason, why, nil)
	default:
		c.set(ended)
		c.hangUp(errBroken)
	}
}

// refuse answers a CONNECT packet with a refusal, and closes.
func (c *conn) refuse(reason wire.Reason, why string, user []byte) {
	c.set(ended)
	c.gate.counts.refused.Add(1)
	malformed := reason == wire.Malformed || reason == wire.ProtocolError
	if !c.has(five) && malformed { // 3.1.1 has no code for it: the connection is closed
		c.hangUp(errBroken)
		return
	}
	c.write(wire.AppendConnack(nil, c.version(), false, reason, c.parting(reason, why, user)), nil)
	c.hangUp(errBroken)
}

// end sends a DISCONNECT, which 3.1.1 does not have, and closes.
func (c *conn) end(reason wire.Reason, why string, user []byte) {
	if c.is.Or(ended)&ended != 0 {
		return
	}
	if c.has(five) {
		c.write(wire.AppendDisconnect(nil, wire.V5, reason, c.parting(reason, why, user)), nil)
	}
	c.hangUp(errGoodbye)
}

// explain makes the properties that explain a reason code, unless the client wants none.
func (c *conn) explain(why string, user []byte) []byte {
	if c.has(brief) || !c.has(five) {
		return nil
	}
	var props []byte
	if why != "" {
		props = wire.AppendText(props, wire.ReasonString, clip(why))
	}
	return append(props, user...)
}

// parting makes the properties of a goodbye: explain's, and where else the client can go.
func (c *conn) parting(reason wire.Reason, why string, user []byte) []byte {
	props := c.explain(why, user)
	if to := c.gate.cfg.Elsewhere; to != "" && reason == wire.UseAnotherServer && c.has(five) {
		props = wire.AppendText(props, wire.ServerReference, to)
	}
	return props
}

// clip shortens a reason to what the smallest clients take.
func clip(why string) string {
	const most = 200
	if len(why) <= most {
		return why
	}
	cut := most
	for cut > 0 && why[cut]&0xc0 == 0x80 {
		cut--
	}
	return why[:cut]
}

// Close implements session.Transport.
func (c *conn) Close(g frame.Goodbye) {
	reason, why := c.gate.reasonOf(g), g.Reason
	if g.Error != nil {
		why = g.Error.Message
	}
	var user []byte
	if g.RetryAfter > 0 {
		user = wire.AppendUser(user, "retry_after", strconv.FormatInt(int64((g.RetryAfter+time.Second-1)/time.Second), 10)+"s")
	}
	if g.Reason == frame.Replaced {
		c.mu.Lock()
		if c.more != nil {
			c.more.replaced = true
		}
		c.mu.Unlock()
		c.gate.overtaken(c)
	}
	if reason == wire.KeepAliveTimeout {
		c.gate.lost(c)
	}
	switch {
	case c.has(welcomed):
		c.end(reason, why, user)
	case c.has(said):
		c.refuse(reason, why, user)
	default:
		c.set(ended)
		c.hangUp(errGoodbye)
	}
}

// reasons are the codes of goodbyes.
var reasons = map[string]wire.Reason{
	frame.Replaced:        wire.TakenOver,
	frame.Erased:          wire.Administrative,
	frame.RateLimited:     wire.RateExceeded,
	frame.TooManySessions: wire.QuotaExceeded,
	frame.Full:            wire.ServerBusy,
	frame.AuthUnavailable: wire.ServerUnavailable,
	frame.StoreAway:       wire.UseAnotherServer,
	"unauthenticated":     wire.BadUserPassword,
	"bad_hello":           wire.BadUserPassword,
	"forbidden":           wire.NotAuthorized,
	"unknown_app":         wire.NotAuthorized,
	"token_expired":       wire.NotAuthorized,
	"heartbeat_timeout":   wire.KeepAliveTimeout,
	"too_many_errors":     wire.ProtocolError,
}

// reasonOf returns the code of a goodbye. A node that leaves others behind sends its clients to them.
func (g *Gateway) reasonOf(bye frame.Goodbye) wire.Reason {
	if bye.Reason == frame.Shutdown {
		if g.cfg.Several || g.cfg.Elsewhere != "" {
			return wire.UseAnotherServer
		}
		return wire.ShuttingDown
	}
	if r, ok := reasons[bye.Reason]; ok {
		return r
	}
	return wire.Administrative
}
