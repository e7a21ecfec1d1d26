package mqttgate

import (
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
)

// keptSession is what MQTT calls a session: what outlasts a connection. Its subscriptions are on disk, too (filterdb.Sessions). keptSessions.mu guards
// it.
type keptSession struct {
	of        sessionName
	stored    int64 // names the connection in the store; 0: the session is in memory alone
	present   bool  // it was there when the client came
	subs      []subscription
	received  *packetIDs // QoS 2 packets that were published and not released
	sent      *sentTwo
	lasts     time.Duration // beyond its connection
	owner     *conn         // nil: the client is away
	discarded bool          // a clean start has ended it while its connection was open, or it goes on elsewhere
	until     time.Time     // while it is away
	will      *willing      // of a client that is away: it is published unless the client comes back in time
	timer     *time.Timer   // of the will
	erased    bool          // it ends with its connection
}

// sessionName identifies a session.
type sessionName struct{ app, recipient, device string }

// keptSessions holds the sessions that outlast their connections.
type keptSessions struct {
	g        *Gateway
	mu       sync.Mutex
	all      map[sessionName]*keptSession
	away     int
	extendAt time.Time // when the filters of connected devices are extended
	most     int
}

// take gives a verified client its session, or discards it. found is what the store has, unless that is nil. c.mu is held.
func (k *keptSessions) take(c *conn, who access.Client, found *filterdb.Found) {
	name := sessionName{who.App, who.Recipient, who.Device}
	k.mu.Lock()
	defer k.mu.Unlock()
	if found != nil {
		k.compare(name, found)
	}
	s := k.all[name]
	if s != nil && s.owner == nil {
		k.away--
		if c.has(clean) || !s.until.After(k.g.cfg.Now()) {
			k.end(s)
			s = nil
		} else {
			s.comeBack()
		}
	}
	if s != nil && c.has(clean) { // another connection has it, and will be ended
		delete(k.all, name)
		s.discarded = true
		s = nil
	}
	back := found != nil && found.Former != 0
	switch {
	case !c.has(lasting) && s == nil && !back:
		return
	case s == nil:
		s = &keptSession{of: name, received: &packetIDs{}, sent: &sentTwo{}, present: back}
		if back {
			s.subs = subscriptionsOf(found.Subscriptions)
		}
		k.all[name] = s
	default:
		s.present = true
	}
	s.owner, s.lasts = c, time.Duration(c.more.expiry)*time.Second
	c.more.state, c.more.received, c.more.sent = s, s.received, s.sent
	k.own(s, found)
}

// comeBack withdraws a delayed will: its client is here again.
func (s *keptSession) comeBack() {
	if s.timer != nil && s.timer.Stop() {
		s.will = nil
	}
	s.timer = nil
}

// end drops a session, and publishes a will that waits for its end. k.mu is held.
func (k *keptSessions) end(s *keptSession) {
	if k.all[s.of] == s {
		delete(k.all, s.of)
	}
	if s.timer != nil && s.timer.Stop() {
		k.publish(s)
	}
}

// publish publishes a session's will. k.mu is held.
func (k *keptSessions) publish(s *keptSession) {
	if s.will != nil {
		k.g.laneOf(s.of.app).add(s.will.job)
		s.will = nil
	}
}

// left notes that a client's connection has ended, and returns its will if that is due now. Without an expiry the session ends too. Without room for
// one more it is on disk alone. elsewhere: another node's connection has taken it over.
func (k *keptSessions) left(c *conn, s *keptSession, expiry uint32, w *willing, elsewhere bool) (now *willing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.owner != c { // another connection has taken it over, and overtaken has seen to the will
		return nil
	}
	s.owner = nil
	if s.discarded { // so its will is due, whatever its delay (section 3.1.3.2.2)
		return w
	}
	lasts := time.Duration(expiry) * time.Second
	k.storeLeft(s, lasts)
	if elsewhere { // overtaken has seen to the will
		delete(k.all, s.of)
		return nil
	}
	if expiry == 0 || s.erased || k.away >= k.most || k.g.ctx.Err() != nil {
		delete(k.all, s.of)
		return w
	}
	k.away++
	s.until = k.g.cfg.Now().Add(lasts)
	if w == nil || w.delay == 0 {
		return w
	}
	s.will = w
	s.timer = time.AfterFunc(min(w.delay, lasts), func() { k.g.start(func() { k.willDue(s) }) })
	return nil
}

// goesOn reports whether a session that another connection has taken over goes on there: a clean start discards it. s may be nil.
func (k *keptSessions) goesOn(s *keptSession) bool {
	if s == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return !s.discarded
}

// owns reports whether a session is a connection's still, and has not been discarded.
func (k *keptSessions) owns(c *conn, s *keptSession) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.owner == c && !s.discarded
}

// sweep drops the sessions whose time is over.
func (k *keptSessions) sweep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.g.cfg.Now()
	for _, s := range k.all {
		if s.owner == nil && !s.until.After(now) {
			k.end(s)
			k.away--
		}
	}
}

// erase drops the sessions of an erased recipient, without their wills, and returns how many that were.
func (k *keptSessions) erase(app, recipient string) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, s := range k.all {
		if name.app != app || name.recipient != recipient {
			continue
		}
		n++
		if s.erased = true; s.owner == nil {
			s.comeBack()
			delete(k.all, name)
			k.away--
		}
	}
	return n
}

// close stops the timers of wills. Those of clients that are away when the server stops are not published.
func (k *keptSessions) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.all {
		s.comeBack()
	}
}

// counts returns how many clients with a session are connected, and how many away.
func (k *keptSessions) counts() (here, away int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.all) - k.away, k.away
}

// present reports whether a session was there when its client came. s may be nil.
func (k *keptSessions) present(s *keptSession) bool {
	if s == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.present
}

// subscriptions returns the filters of a session. s may be nil.
func (k *keptSessions) subscriptions(s *keptSession) []subscription {
	if s == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(s.subs)
}

// kept returns the session of the connection that outlasts it, or has outlasted the one before; nil: there is none.
func (c *conn) kept() *keptSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more == nil {
		return nil
	}
	return c.more.state
}
