package mqttgate

import (
	"bytes"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
)

// willing is a client's will: a message that is published when its connection ends without a goodbye.
type willing struct {
	t     target
	rest  string
	job   job
	delay time.Duration
}

// willOf reads the will in a CONNECT packet that unfitWill has passed.
func (g *Gateway) willOf(in *wire.Connect) *willing {
	if bytes.HasPrefix(in.WillTopic, []byte("$")) { // it would reach nobody
		return nil
	}
	w := &willing{delay: time.Duration(in.WillProperties.Number(wire.WillDelay, 0)) * time.Second}
	w.t, w.rest = targetOf(string(in.WillTopic))
	w.job.qos = in.WillQoS
	_, _ = g.work(&w.job, w.t, w.rest, willMessage(in)) // was checked
	return w
}

// willMessage is the will as if it were published.
func willMessage(in *wire.Connect) *wire.Publish {
	return &wire.Publish{QoS: in.WillQoS, Topic: in.WillTopic, Properties: in.WillProperties, Payload: bytes.Clone(in.WillOf)}
}

// unfitWill returns why a will cannot be published.
func (g *Gateway) unfitWill(in *wire.Connect) (wire.Reason, string) {
	if in.WillQoS == 2 && in.Version == wire.V5 && !g.cfg.QoS2 {
		return wire.QoSUnsupported, "a will at QoS 2, and the most here is 1"
	}
	t, rest := targetOf(string(in.WillTopic))
	if bytes.HasPrefix(in.WillTopic, []byte("$")) {
		return wire.Success, ""
	}
	if t != toTopics && t != toMailbox && t != toObject {
		return wire.InvalidTopic, "the will's topic is none that clients publish to"
	}
	return g.work(&job{}, t, rest, willMessage(in))
}

// closed sees to what a connection leaves behind: its session and its will.
func (g *Gateway) closed(c *conn) {
	c.mu.Lock()
	m := c.more
	var w *willing
	var s *keptSession
	var r *rights
	var expiry uint32
	var q *queue
	replaced := false
	if m != nil {
		if c.has(welcomed) {
			w, r = m.will, c.rights()
		}
		s, expiry, replaced = m.state, m.expiry, m.replaced
		m.will, m.state = nil, nil
		m.flight, m.later, m.asks = nil, nil, nil
		q, m.queue = m.queue, nil
	}
	c.mu.Unlock()
	if w != nil && (c.has(parted) || !g.stillAllowed(r, w)) {
		w = nil
	}
	app := c.sess.App()
	g.leaveQueue(q, expiry, replaced || s != nil && !g.kept.owns(c, s))
	if s != nil {
		w = g.kept.left(c, s, expiry, w, replaced && g.cfg.Several)
	}
	if w != nil {
		g.laneOf(app).add(w.job)
	}
}

// overtaken publishes the will of a connection that another one of its client takes over, before anything that the new one publishes: who
// watches would otherwise see the client come and then leave.
func (g *Gateway) overtaken(c *conn) {
	c.mu.Lock()
	m := c.more
	if m == nil || m.will == nil || c.has(parted) {
		c.mu.Unlock()
		return
	}
	w, s, r := m.will, m.state, c.rights()
	m.will = nil
	c.mu.Unlock()
	if w.delay > 0 && g.kept.goesOn(s) || !g.stillAllowed(r, w) {
		return
	}
	g.laneOf(c.sess.App()).add(w.job)
}

// lost publishes the will of a client that was silent for too long. It may be beyond reach, and then its connection stays for some seconds more,
// until it is clear that nobody closes the other side. A delay begins with the end of the connection.
func (g *Gateway) lost(c *conn) {
	c.mu.Lock()
	m := c.more
	if m == nil || m.will == nil || m.will.delay > 0 && m.state != nil || c.has(parted) {
		c.mu.Unlock()
		return
	}
	w, r := m.will, c.rights()
	m.will = nil
	c.mu.Unlock()
	if g.stillAllowed(r, w) {
		g.laneOf(c.sess.App()).add(w.job)
	}
}

// stillAllowed reports whether a client that is gone may still publish its will.
func (g *Gateway) stillAllowed(r *rights, w *willing) bool {
	if r == nil {
		return false
	}
	if now := g.cfg.Access.Revision(); r != open && now != r.revision && !g.renew(r) {
		return false
	}
	return r.allow(w.t, w.rest)
}
