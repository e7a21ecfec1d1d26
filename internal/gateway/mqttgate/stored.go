package mqttgate

import (
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
)

// The subscriptions of a session that outlasts its connection are on disk before they are acknowledged. So a client that comes back after a restart, or
// to another node, finds its session there. QoS 2 packets and delayed wills are in memory alone.

// takeSession gives a verified client its session, then calls done.
func (g *Gateway) takeSession(c *conn, who access.Client, done func(error)) {
	c.mu.Lock()
	o := filterdb.Opening{Of: c.more.of, Clean: c.has(clean), Expiry: time.Duration(c.more.expiry) * time.Second}
	assigned := c.more.assigned != ""
	if g.cfg.Sessions == nil || o.Of.Name == "" || assigned && o.Expiry == 0 {
		g.kept.take(c, who, nil)
		c.mu.Unlock()
		done(nil)
		return
	}
	c.mu.Unlock()
	g.cfg.Sessions.Take(o, func(f filterdb.Found, err error) {
		if err != nil {
			g.cfg.Log.Debug("the session of an MQTT client could not be stored", "app", who.App, "recipient", who.Recipient, "device", who.Device, "error", err)
		}
		g.took(c, who, f, err)
		done(nil)
	})
}

// took gives a client the session that the store has found.
func (g *Gateway) took(c *conn, who access.Client, f filterdb.Found, err error) {
	c.mu.Lock()
	of, expiry, gone := c.more.of, time.Duration(c.more.expiry)*time.Second, c.has(ended)
	switch {
	case gone: // the client has hung up
	case err != nil:
		g.kept.take(c, who, nil)
	default:
		g.kept.take(c, who, &f)
	}
	c.mu.Unlock()
	if f.Over && g.cfg.Filters != nil {
		g.cfg.Filters.Forget(of)
	}
	if gone && f.Owner != 0 {
		g.cfg.Sessions.Leave(of, f.Owner, expiry)
	}
}

// compare ends a session in memory that is not the one in the store. k.mu is held.
func (k *keptSessions) compare(name sessionName, found *filterdb.Found) {
	s := k.all[name]
	if s == nil || s.stored == 0 || s.stored == found.Former {
		return
	}
	if found.Former != 0 { // it goes on: its client was elsewhere
		s.comeBack()
	}
	k.end(s)
	if s.owner == nil {
		k.away--
	}
	s.discarded = true
}

// own notes that a session in the store is that of its present connection, or has it stored. k.mu is held.
func (k *keptSessions) own(s *keptSession, found *filterdb.Found) {
	db := k.g.cfg.Sessions
	switch {
	case db == nil || s.of.device == "" || s.lasts == 0 && found == nil:
	case found == nil: // the store could not be reached
		s.stored = db.Adopt(s.device(), s.lasts, storable(s.subs))
	default:
		s.stored = found.Owner
		if subs := storable(s.subs); s.stored != 0 && !slices.Equal(subs, found.Subscriptions) {
			db.Store(s.device(), s.stored, subs, nil)
		}
	}
}

// storeLeft stores that a session's client has gone. k.mu is held.
func (k *keptSessions) storeLeft(s *keptSession, lasts time.Duration) {
	switch db := k.g.cfg.Sessions; {
	case db == nil || s.stored == 0:
	case lasts == 0 || s.erased:
		db.End(s.device(), s.stored)
	default:
		db.Leave(s.device(), s.stored, lasts)
	}
}

// willDue publishes a delayed will, unless its client has come back to another node.
func (k *keptSessions) willDue(s *keptSession) {
	elsewhere := false
	if db := k.g.cfg.Sessions; db != nil && k.g.cfg.Several {
		k.mu.Lock()
		owner := s.stored
		k.mu.Unlock()
		var err error
		if elsewhere, err = db.WentOn(k.g.ctx, s.device(), owner); err != nil && k.g.ctx.Err() == nil {
			k.g.cfg.Log.Warn("a will is published without knowing whether its client is back", "app", s.of.app, "recipient", s.of.recipient, "error", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case elsewhere:
		s.will = nil
	case k.g.ctx.Err() == nil:
		k.publish(s)
	}
}

// device is the session's device. Its name never changes.
func (s *keptSession) device() filterdb.Device {
	return filterdb.Device{App: s.of.app, Recipient: s.of.recipient, Name: s.of.device}
}

func storable(subs []subscription) (list []filterdb.Subscription) {
	for _, s := range subs {
		list = append(list, filterdb.Subscription{Filter: s.filter, QoS: s.qos, NoLocal: s.noLocal, ID: s.id})
	}
	return list
}

func subscriptionsOf(list []filterdb.Subscription) (subs []subscription) {
	for _, s := range list {
		subs = append(subs, subscription{filter: s.Filter, qos: s.QoS, noLocal: s.NoLocal, id: s.ID})
	}
	return subs
}

// with returns a session's subscriptions with others, as far as there is room.
func with(subs, more []subscription) []subscription {
	bytes := 0
	for _, s := range subs {
		bytes += len(s.filter)
	}
	for _, sub := range more {
		i := slices.IndexFunc(subs, func(o subscription) bool { return o.filter == sub.filter })
		switch {
		case i >= 0:
			subs[i] = sub
		case len(subs) < maxSubscriptions && bytes+len(sub.filter) <= maxFilterBytes:
			subs = append(subs, sub)
			bytes += len(sub.filter)
		}
	}
	return subs
}

// without returns a session's subscriptions without those to some filters.
func without(subs []subscription, filters []string) []subscription {
	return slices.DeleteFunc(subs, func(s subscription) bool { return slices.Contains(filters, s.filter) })
}

// changeStored changes the subscriptions of the connection's session, stores them if it outlasts the connection and there is a difference, and then calls
// then. Meanwhile nothing is read: the client's packets are handled in order. After an error the session is as before.
func (c *conn) changeStored(in *input, change func([]subscription) []subscription, then func(*input, error)) {
	s := c.kept()
	if s == nil {
		then(in, nil)
		return
	}
	k := &c.gate.kept
	k.mu.Lock()
	before := s.subs
	s.subs = change(slices.Clone(before))
	if s.stored == 0 || s.owner != c || slices.Equal(before, s.subs) {
		k.mu.Unlock()
		then(in, nil)
		return
	}
	c.set(verifying)
	c.out.Pause()
	c.gate.cfg.Sessions.Store(s.device(), s.stored, storable(s.subs), func(err error) {
		if err != nil {
			k.mu.Lock()
			s.subs = before
			k.mu.Unlock()
		}
		in, _ := c.gate.inputs.Get().(*input)
		defer c.gate.inputs.Put(in)
		if !c.has(ended) {
			then(in, err)
		}
		c.unset(verifying)
		if !c.has(congested) {
			c.readOn()
		}
	})
	k.mu.Unlock()
}

// remembers reports whether a subscription is among those of the connection's session, if that outlasts it.
func (c *conn) remembers(sub subscription) bool {
	s := c.kept()
	if s == nil {
		return true
	}
	k := &c.gate.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(s.subs, func(o subscription) bool { return o.filter == sub.filter })
}

// forget ends a subscription that is not granted, and reports whether it was in a session that is stored.
func (c *conn) forget(filter string) bool {
	s := c.kept()
	if s == nil {
		return false
	}
	k := &c.gate.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(s.subs)
	s.subs = without(slices.Clone(s.subs), []string{filter})
	return len(s.subs) < n && s.stored != 0 && s.owner == c
}

// storeSession stores the subscriptions of the connection's session. Nobody waits for it.
func (c *conn) storeSession() {
	s, k := c.kept(), &c.gate.kept
	if s == nil { // the connection has ended
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c.gate.cfg.Sessions.Store(s.device(), s.stored, storable(s.subs), nil)
}

// sweepStored ends the stored sessions whose time is over, and has those of connected clients last.
func (g *Gateway) sweepStored() {
	db := g.cfg.Sessions
	if db == nil {
		return
	}
	over, err := db.Sweep()
	if g.cfg.Filters != nil {
		for _, d := range over {
			if g.cfg.Filters.Known(d) {
				g.cfg.Filters.Forget(d)
			}
		}
	}
	if now := g.cfg.Now(); err == nil && !now.Before(g.extendAt) {
		if err = db.Extend(); err == nil {
			g.extendAt = now.Add(filterdb.Slack / 2)
		}
	}
	if err != nil {
		g.cfg.Log.Warn("sessions of MQTT clients could not be swept", "error", err)
	}
}
