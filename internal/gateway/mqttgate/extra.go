package mqttgate

import (
	"slices"
	"strconv"
	"sync"

	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/notify/frame"
)

// extra holds what most idle connections do not need. conn.mu guards it.
type extra struct {
	flight []flying // packets of QoS 1 and 2 that the client has not acknowledged
	later  []flying // what Tick passes to the session
	full   bool     // a packet was refused for want of room

	receive uint16 // most packets in flight that the client takes; 0: any
	packet  uint32 // most bytes of a packet that it takes, if the connection is limited

	low    []string // objects that it wants at QoS 0
	ids    []identified
	asks   []*ask // SUBSCRIBE packets that wait for the store
	errors *[]frame.Error

	long      []byte            // beginning of a long packet
	own       []uint64          // hashes of messages that it has published and that may come back
	given     map[string]uint16 // aliases of topics that it was sent
	aliasMost uint16            // most of these
	aliases   []string          // topics of the client's aliases, from 1
	received  *packetIDs        // QoS 2 packets that were published and not released
	rights    *rights           // to publish
	waiting   waiting           // its publishes that are not answered

	will  *willing
	queue *queue
	sure  *sureTopics  // filters of topics at QoS 1 and 2 that are in memory alone
	state *keptSession // of a session that outlasts its connection
	sent  *sentTwo     // of state

	expiry   uint32 // for how many seconds its session outlasts the connection
	replaced bool   // another connection of its device, perhaps on another node, has taken over

	// Only until the session is what it was.
	hello                          *frame.Hello
	opening, discard, wantsReplies bool
	assigned                       string
	of                             filterdb.Device // of the client, whether its session lasts or not
	asked                          uint32          // session expiry that the client asked for
	keepAlive                      uint16
}

// flying is a packet of QoS 1 or 2 on its way: a notification, a message of a topic, or a version of an object.
type flying struct {
	packet        uint16
	settled       bool   // nobody waits for the acknowledgement
	two           bool   // of QoS 2
	released      bool   // its PUBREC has come
	kept          bool   // a message of the queue
	topic         bool   // a message of a topic that is in memory alone
	nack          bool   // a notification that is given back
	unknown       bool   // an object whose state is unknown
	id            string // of a notification
	group, object string
	version       uint64
}

// extras are reused, so that a connection which is busy now and then makes no garbage.
var extras = sync.Pool{New: func() any { return new(extra) }}

const keptFlight = 64 // most packets in flight that a reused extra has memory for

// busy returns the connection's extra, and makes it if necessary. c.mu is held.
func (c *conn) busy() *extra {
	if c.more == nil {
		c.more, _ = extras.Get().(*extra)
	}
	return c.more
}

// tidy drops an extra that holds nothing. c.mu is held.
func (c *conn) tidy() {
	m := c.more
	if m == nil || !m.idle() || m.rights != nil || c.has(limited|lasting|aliased) {
		return
	}
	c.more = nil
	if cap(m.flight) <= keptFlight && cap(m.later) <= keptFlight {
		*m = extra{flight: m.flight[:0], later: m.later[:0]}
		extras.Put(m)
	}
}

func (m *extra) idle() bool {
	return len(m.flight) == 0 && len(m.later) == 0 && m.receive == 0 && len(m.low) == 0 && len(m.asks) == 0 && m.errors == nil &&
		m.long == nil && len(m.own) == 0 && len(m.aliases) == 0 && m.received == nil && m.sure == nil && len(m.ids) == 0 && m.waiting.count == 0 && m.will == nil && m.state == nil && !m.opening
}

// flights is how many packets are in flight. m may be nil.
func (m *extra) flights() int {
	if m == nil {
		return 0
	}
	return len(m.flight)
}

// lowQoS reports whether the client wants an object at QoS 0.
func (m *extra) lowQoS(name string) bool { return m != nil && slices.Contains(m.low, name) }

// room reports whether one more packet may be in flight. If not, the session is told when there is room. c.mu is held.
func (c *conn) room() bool {
	if c.more.flights() < c.more.window() {
		return true
	}
	c.more.full = true
	return false
}

// window is how many packets may be in flight. m may be nil.
func (m *extra) window() int {
	if m != nil && m.receive > 0 {
		return min(maxInFlight, int(m.receive))
	}
	return maxInFlight
}

// nextID returns a packet id that is not in flight. c.mu is held.
func (c *conn) nextID() uint16 {
	for {
		if c.last++; c.last != 0 && c.flown(c.last) < 0 && (c.more == nil || !c.more.sent.holds(c.last)) {
			return c.last
		}
	}
}

// flown returns the index of a packet in flight; negative: there is none. c.mu is held.
func (c *conn) flown(packet uint16) int {
	if c.more == nil {
		return -1
	}
	return slices.IndexFunc(c.more.flight, func(f flying) bool { return f.packet == packet })
}

// fly notes a packet in flight. c.mu is held.
func (c *conn) fly(f flying) {
	m := c.busy()
	m.flight = append(m.flight, f)
	if m.sure != nil && !f.topic {
		m.sure.leaves = false
	}
}

// land takes a packet out of flight that the client has acknowledged with a packet of this type.
func (c *conn) land(packet uint16, by wire.Type) (f flying, was, full bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.flown(packet)
	if i < 0 {
		return f, false, false, nil
	}
	m := c.more
	if f = m.flight[i]; f.two != (by != wire.PUBACK) || by == wire.PUBCOMP && !f.released {
		return f, true, false, broken(wire.ProtocolError, by.String()+" does not follow what packet "+strconv.Itoa(int(packet))+" has had")
	}
	full = m.full
	m.flight = slices.Delete(m.flight, i, i+1)
	m.full = false
	if f.two {
		m.sent.release(packet, true)
	}
	if m.sure != nil && len(m.sure.late) > 0 {
		c.takeTurn(full)
	}
	c.tidy()
	return f, true, full, nil
}

// acked handles a PUBACK packet.
func (c *conn) acked(p wire.Packet, in *input) error {
	a := &in.ack
	if err := a.Decode(c.version(), p); err != nil {
		return err // a *wire.Error
	}
	f, was, full, err := c.land(a.ID, wire.PUBACK)
	switch {
	case err != nil:
		return err
	case !was:
		c.sess.Alive() // of an earlier connection, say
		return nil
	case f.object != "":
		c.objectAck(&f, in)
	case f.kept:
		c.sess.Alive()
		c.landed(&f, in)
	case f.settled:
		c.sess.Alive()
	case a.Reason.Failed():
		c.nack(&f, a, in)
	default:
		in.one[0] = []byte(f.id)
		in.frame = frame.Client{Kind: frame.KindAck, IDs: in.one[:]}
		c.sess.Frame(&in.frame)
	}
	c.refill(full)
	return nil
}

// refill has more packets sent after one was acknowledged. full: one had to wait.
func (c *conn) refill(full bool) {
	if !full {
		return
	}
	c.sess.Drained()
	c.drainedQueue()
}

// nack gives a notification back, with the reason string and a user property "after" if the client sends them.
func (c *conn) nack(f *flying, a *wire.Ack, in *input) {
	in.one[0] = []byte(f.id)
	in.frame = frame.Client{Kind: frame.KindNack, IDs: in.one[:], Reason: clipBytes(a.Properties.Text(wire.ReasonString))}
	if after, ok := a.Properties.UserValue("after"); ok {
		in.frame.After = delayOf(string(after))
	}
	c.sess.Frame(&in.frame)
}

func (c *conn) objectAck(f *flying, in *input) {
	if f.version == 0 {
		c.sess.Alive()
		return
	}
	in.frame = frame.Client{Kind: frame.KindObjectAck, Group: []byte(f.group), Object: []byte(f.object), Version: versionOf(f.version)}
	c.sess.Frame(&in.frame)
}

// settleLater has Tick pass something to the session, which is locked now. c.mu is held.
func (c *conn) settleLater(f flying) {
	m := c.busy()
	m.later = append(m.later, f)
	c.out.SetTimer(soon)
}

// tooLarge gives back a notification that is larger than the client takes: it must not keep others waiting. c.mu is held.
func (c *conn) tooLarge(id string) {
	c.gate.counts.large.Add(1)
	c.settleLater(flying{id: id, nack: true})
}

// giveBack passes to the session what could not be passed while it was locked. It runs on the connection's loop.
func (c *conn) giveBack() {
	c.mu.Lock()
	if c.more == nil {
		c.mu.Unlock()
		return
	}
	later := slices.Clone(c.more.later)
	c.more.later = c.more.later[:0]
	c.tidy()
	c.mu.Unlock()
	in, _ := c.gate.inputs.Get().(*input)
	defer c.gate.inputs.Put(in)
	for i := range later {
		f := &later[i]
		if f.kept {
			c.landed(f, in)
			continue
		}
		if !f.nack {
			c.objectAck(f, in)
			continue
		}
		in.one[0] = []byte(f.id)
		in.frame = frame.Client{Kind: frame.KindNack, IDs: in.one[:], Reason: []byte("larger than the client's maximum packet size")}
		c.sess.Frame(&in.frame)
	}
}
