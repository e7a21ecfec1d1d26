package mqttgate

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/websocket"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// conn is one client: the reactor's handler and the session's transport in one small struct, because an idle connection costs little else.
// extra has the fields that only some connections need.
type conn struct {
	gate *Gateway
	out  *reactor.Conn
	sess *session.Session
	more *extra        // nil: nothing; guarded by mu
	mu   sync.Mutex    // never held while the session or its parts are called
	is   atomic.Uint32 // flags
	last uint16        // packet id that was given last; guarded by mu
}

var (
	_ reactor.Handler   = (*conn)(nil)
	_ session.Transport = (*conn)(nil)
	_ session.Corker    = (*conn)(nil)
	_ session.Knower    = (*conn)(nil)
)

// Flags of a connection.
const (
	five       uint32 = 1 << iota // MQTT 5
	said                          // its CONNECT has come
	welcomed                      // its CONNACK was sent, and was no refusal
	ended                         // nothing more is read or written
	verifying                     // nothing is read while its credential is checked
	congested                     // nothing is read while too much of its publishes waits
	inboxOnce                     // subscribed to the mailbox at QoS 0
	inboxAcked                    // at QoS 1
	recalls                       // subscribed to recalls
	requests                      // subscribed to requests by name
	gaps                          // subscribed to the numbers of dropped messages
	tallies                       // subscribed to the counts of the inbox
	brief                         // wants no reason strings
	clean                         // discards what is stored of its registrations
	lasting                       // its session outlasts the connection
	limited                       // extra has the most bytes of a packet
	silent                        // the objects that come now belong to registrations that are being discarded
	parted                        // it has said goodbye: there is no will any more
	publishes                     // extra has its rights to publish
	observer                      // it cannot acknowledge
	serves                        // it has served subjects
	gathering                     // extra has the beginning of a long packet
	queued                        // extra has a queue
	framed                        // it is a WebSocket
	watchful                      // its credential allows the figures of the app
	aliased                       // it takes topic aliases
	noLocal                       // its own messages do not come back to it
	withIDs                       // extra has identifiers of subscriptions
	sure                          // extra has filters of topics at QoS 1 or 2 that are in memory alone
)

func (c *conn) has(flag uint32) bool { return c.is.Load()&flag != 0 }
func (c *conn) set(flag uint32)      { c.is.Or(flag) }
func (c *conn) unset(flag uint32)    { c.is.And(^flag) }

// version is the connection's version of MQTT.
func (c *conn) version() wire.Version {
	if c.has(five) {
		return wire.V5
	}
	return wire.V311
}

// Reasons why connections end.
var (
	errGoodbye = errors.New("the session has ended")
	errBroken  = errors.New("the client broke the protocol")
)

// Data implements reactor.Handler.
func (c *conn) Data(b []byte) (int, error) {
	used := 0
	if c.has(gathering) {
		n, err := c.gather(b)
		if used = n; err != nil || c.has(gathering) {
			return used, err
		}
	}
	for !c.has(ended | verifying | congested) {
		most := maxPacket
		if !c.has(said) {
			most = maxConnect
		}
		p, n, err := wire.Next(b[used:], most)
		switch {
		case err != nil:
			c.fail(err)
			return len(b), nil
		case n == 0 && len(b)-used > gatherFrom:
			c.beginGathering(b[used:])
			return len(b), nil
		case n == 0:
			return used, nil
		}
		used += n
		if err := c.packet(p); err != nil {
			if errors.Is(err, io.EOF) {
				return used, err
			}
			c.fail(err)
		}
	}
	if c.has(ended) {
		return len(b), nil
	}
	return used, nil
}

// beginGathering takes over the beginning of a long packet: the reactor would pass it again with every piece.
func (c *conn) beginGathering(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy().long = slices.Clone(b)
	c.set(gathering)
}

// gather adds to a long packet, and handles it once it is complete.
func (c *conn) gather(b []byte) (used int, err error) {
	c.mu.Lock()
	long := c.more.long
	c.mu.Unlock()
	used = min(wire.Size(long)-len(long), len(b))
	long = append(long, b[:used]...)
	if len(long) < wire.Size(long) {
		c.mu.Lock()
		c.more.long = long
		c.mu.Unlock()
		return used, nil
	}
	c.mu.Lock()
	c.more.long = nil
	c.unset(gathering)
	c.tidy()
	c.mu.Unlock()
	p, _, err := wire.Next(long, maxPacket) // its beginning was checked
	if err == nil {
		err = c.packet(p)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.fail(err)
		return len(b), nil
	}
	return used, err
}

// packet handles one packet. io.EOF: the client has ended the connection.
func (c *conn) packet(p wire.Packet) error {
	t := p.Type()
	if !c.has(said) {
		if t != wire.CONNECT {
			return broken(wire.ProtocolError, "a client begins with CONNECT, not "+t.String())
		}
		return c.connect(p)
	}
	in, _ := c.gate.inputs.Get().(*input)
	defer c.gate.inputs.Put(in)
	c.gate.counts.in[t&0xf].Add(1)
	switch t {
	case wire.PUBACK:
		return c.acked(p, in)
	case wire.PUBLISH:
		return c.published(p, in)
	case wire.PUBREC:
		return c.recorded(p, in)
	case wire.PUBCOMP:
		return c.completed(p, in)
	case wire.PUBREL:
		return c.released(p, in)
	case wire.SUBSCRIBE:
		return c.subscribe(p, in)
	case wire.UNSUBSCRIBE:
		return c.unsubscribe(p, in)
	case wire.PINGREQ:
		c.sess.Alive()
		if err := wire.Empty(p); err != nil {
			return err // a *wire.Error
		}
		c.write(wire.PingResponse, nil)
		return nil
	case wire.DISCONNECT:
		return c.disconnected(p, in)
	case wire.AUTH:
		return broken(wire.BadAuthMethod, "enhanced authentication is not offered: send a key or token as the password")
	case wire.CONNECT:
		return broken(wire.ProtocolError, "a second CONNECT")
	default:
		return broken(wire.ProtocolError, "a client sends no "+t.String()+" here")
	}
}

func broken(r wire.Reason, text string) error { return &wire.Error{Reason: r, Text: text} }

// input holds the packet that is being handled. It is reused.
type input struct {
	publish    wire.Publish
	ack        wire.Ack
	subscribe  wire.Subscribe
	disconnect wire.Disconnect
	frame      frame.Client
	one        [1][]byte
}

// write sends bytes: the first are borrowed, the others shared.
func (c *conn) write(first, shared []byte) bool {
	if c.has(framed) {
		return c.writeFramed(first, shared)
	}
	return c.out.Write(first, shared)
}

// hangUp closes the connection once its last bytes are written.
func (c *conn) hangUp(why error) {
	if c.has(framed) {
		c.out.Write(websocket.AppendClose(nil, websocket.CodeNormal, ""), nil)
	}
	c.out.CloseAfterFlush(why)
}

// Drained implements reactor.Handler.
func (c *conn) Drained() {
	c.sess.Drained()
	c.drainedQueue()
	c.drainedTopics()
}

// Tick implements reactor.Handler: notifications that are too large for the client are given back, and places that the mailbox has left are filled.
func (c *conn) Tick(time.Time) {
	c.giveBack()
	c.waitedEnough()
}

// Closed implements reactor.Handler.
func (c *conn) Closed(error) {
	c.set(ended)
	c.sess.Closed()
	if c.has(watchful) {
		c.gate.watchers.leave(c, "")
	}
	c.gate.closed(c)
}

// Format implements session.Transport.
func (c *conn) Format() frame.Format { return format }

// Cork implements session.Corker.
func (c *conn) Cork() { c.out.Cork() }

// Uncork implements session.Corker.
func (c *conn) Uncork() { c.out.Uncork() }

// Queued is how many bytes wait until the client reads them.
func (c *conn) Queued() int { return c.out.Queued() }

// Probe implements session.Transport. A server of MQTT cannot ask for a sign of life: clients send PINGREQ by themselves.
func (c *conn) Probe() {}

// Pause implements session.Transport.
func (c *conn) Pause() {
	c.set(verifying)
	c.out.Pause()
}

// Resume implements session.Transport. Before the client's next packet, its session becomes what it was.
func (c *conn) Resume() {
	if c.has(welcomed) && !c.has(ended) && c.mayHaveFilters() {
		c.gate.cfg.Filters.Refresh(c.resume)
		return
	}
	c.resume()
}

func (c *conn) resume() {
	if c.has(welcomed) {
		if !c.has(ended) {
			c.restore()
		}
		c.out.Uncork() // what accept has begun
	}
	c.unset(verifying)
	if !c.has(congested) {
		c.readOn()
	}
}

// Name implements session.Transport.
func (c *conn) Name() string { return "mqtt" }
