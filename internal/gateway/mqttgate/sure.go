package mqttgate

import (
	"slices"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/topic"
)

// A session that ends with its connection follows topics at the QoS that it has asked for. Messages that clients publish at QoS 1 or 2 come with a packet
// id, in the window that notifications have, too. Nothing of them is on disk: the session would not outlast a crash. Messages beyond the window wait in memory;
// those beyond its limits are missed, as by every client that reads too slowly.

const (
	maxLate      = 256       // messages of topics that wait for room in a client's window
	maxLateBytes = 256 << 10 // and their bytes
	lateCost     = 128       // bytes of one beside its texts
)

// sureTopics are such filters of a connection, and the messages that wait. conn.mu guards them.
type sureTopics struct {
	filters []sureFilter
	late    []lateMessage
	bytes   int
	turn    bool // the last place in the window was theirs, and not left to the mailbox
	leaves  bool // a place is left to the mailbox
}

type sureFilter struct {
	filter   string
	patterns []string
	qos      byte
}

type lateMessage struct {
	message
	came time.Time
}

func (l *lateMessage) size() int { return lateCost + len(l.topic) + len(l.properties) + len(l.payload) }

// highest is the QoS at which messages of topics are sent to a client that asks for this one.
func (g *Gateway) highest(qos byte) byte {
	if g.cfg.QoS2 {
		return qos
	}
	return min(qos, 1)
}

// assure notes at which QoS the client follows topics, and returns it.
func (c *conn) assure(s *subscription) byte {
	queue, inner, _ := cutShare(s.filter)
	if t, _ := targetOf(inner); t != toTopics {
		return 0
	}
	c.unsure(s.filter)
	qos := c.gate.highest(s.qos)
	if qos == 0 || queue != "" || c.has(lasting|observer) {
		return 0
	}
	patterns, _ := toPatterns(inner) // was granted
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.busy()
	if m.sure == nil {
		m.sure = &sureTopics{}
		c.set(sure)
	}
	m.sure.filters = append(m.sure.filters, sureFilter{s.filter, patterns, qos})
	return qos
}

// unsure ends that for a filter.
func (c *conn) unsure(filter string) {
	if !c.has(sure) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.more.sure
	s.filters = slices.DeleteFunc(s.filters, func(f sureFilter) bool { return f.filter == filter })
	c.unsureIdle()
}

// unsureIdle forgets what nothing is left of. c.mu is held.
func (c *conn) unsureIdle() {
	if s := c.more.sure; len(s.filters) == 0 && len(s.late) == 0 {
		c.more.sure = nil
		c.unset(sure)
		c.tidy()
	}
}

// of returns the QoS at which a message of a topic comes to the client.
func (s *sureTopics) of(m *message) (qos byte) {
	name := toTopic(m.topic)
	for i := range s.filters {
		f := &s.filters[i]
		if f.qos > qos && slices.ContainsFunc(f.patterns, func(p string) bool { return topic.Match(p, name) }) {
			qos = f.qos
		}
	}
	return min(qos, m.qos)
}

// tellSurely sends a message of a topic at QoS 1 or 2, now or later. is is false if the client follows the topic at QoS 0.
func (c *conn) tellSurely(m message) (taken, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more == nil || c.more.sure == nil {
		return false, false
	}
	s := c.more.sure
	if m.qos = s.of(&m); m.qos == 0 {
		return false, false
	}
	if len(s.late) == 0 && c.more.flights() < c.more.window() && c.tellAt(&m) {
		return true, true
	}
	l := lateMessage{m, c.gate.cfg.Now()}
	if len(s.late) >= maxLate || s.bytes+l.size() > maxLateBytes {
		return false, true
	}
	s.late = append(s.late, l)
	s.bytes += l.size()
	return true, true
}

// catchUp sends messages of topics that have waited for room. c.mu is held.
func (c *conn) catchUp() {
	s := c.more.sure
	now := c.gate.cfg.Now()
	most := c.more.window()
	if s.leaves {
		most--
	}
	for len(s.late) > 0 && c.more.flights() < most {
		m, over := s.late[0].aged(now)
		if !over && !c.tellAt(&m) {
			return
		}
		s.bytes -= s.late[0].size()
		s.late[0] = lateMessage{}
		if s.late = s.late[1:]; len(s.late) == 0 {
			s.late = nil
		}
	}
	c.unsureIdle()
}

// aged returns a message with the rest of its expiry. over: it has expired.
func (l *lateMessage) aged(now time.Time) (m message, over bool) {
	m = l.message
	if waited := now.Sub(l.came); waited >= time.Second {
		m.properties, over = wire.Aged(m.properties, uint32(waited/time.Second)) // bounded by the life of a connection
	}
	return m, over
}

// drainedTopics sends what waits now that there is room.
func (c *conn) drainedTopics() {
	if !c.has(sure) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more != nil && c.more.sure != nil {
		c.catchUp()
	}
}

// takeTurn shares the window between topics that wait and the mailbox, which has something if full: each second place is left to it for a moment, since it
// reads what it sends from the disk. c.mu is held.
func (c *conn) takeTurn(full bool) {
	s := c.more.sure
	if s.turn = !full || !s.turn; !s.turn {
		s.leaves = true
		c.out.SetTimer(fairly)
	}
	c.catchUp()
}

// waitedEnough fills the place that was left to the mailbox.
func (c *conn) waitedEnough() {
	if !c.has(sure) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more != nil && c.more.sure != nil {
		c.more.sure.leaves = false
		c.catchUp()
	}
}

// tellAt sends a message of a topic at its QoS. c.mu is held.
func (c *conn) tellAt(m *message) bool {
	var props [160]byte
	h := wire.Head{Topic: m.topic, QoS: m.qos, ID: c.nextID(), Properties: c.more.appendIDs(c.propertiesOf(props[:0], m), m.topic)}
	if c.has(limited) && uint64(h.Size(c.version(), len(m.payload))) > uint64(c.more.packet) {
		c.gate.counts.large.Add(1)
		return true
	}
	send := func() bool { return c.publishTwo(&h, nil, m.payload) }
	if taken := c.has(aliased) && c.more.alias(&h, send) || !c.has(aliased) && send(); !taken {
		return false
	}
	c.fly(flying{packet: h.ID, settled: true, topic: true, two: m.qos == 2})
	return true
}
