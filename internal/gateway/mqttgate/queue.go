package mqttgate

import (
	"context"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
)

// A filter of topics that a session keeps at QoS 1 outlasts its connection, and a restart. A message that a client publishes to a matching topic at QoS 1
// becomes a notification to a mailbox of the device, which a second session of the connection serves: so order, window, redelivery and expiry are
// those of every mailbox. Messages of QoS 0 reach the device as they reach everybody, while it is here.

// keptCategory marks notifications that hold a message of a topic: its MQTT name is the title, its content type the body.
const keptCategory = "mqtt.topic"

// lastMoment is how long a device keeps its filters beyond their time while it is connected. It is extended before half of it has passed.
const lastMoment = time.Hour

// queue is the second session of a connection. c.mu guards the filters.
type queue struct {
	c       *conn
	sess    *session.Session
	of      filterdb.Device
	ended   int64 // revision with which the device's former session ended
	filters []string
	two     map[string][]string // patterns of the filters at QoS 2
}

var (
	_ session.Transport = (*queue)(nil)
	_ session.Corker    = (*queue)(nil)
)

// Write implements session.Transport.
func (q *queue) Write(k frame.ServerKind, head, tail []byte) bool {
	if k != frame.ServerNotification {
		return true
	}
	n := readNote(unpack(head, tail))
	if q.c.has(ended) {
		return false
	}
	if n.matched > 0 && n.matched < q.ended && !q.shares(&n) {
		q.former(&n)
		return true
	}
	return q.c.deliverKept(&n)
}

// shares reports whether the client is still a member of a queue by which a message has come.
func (q *queue) shares(n *note) bool {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	return slices.ContainsFunc(n.shares, func(s string) bool { return slices.Contains(q.filters, s) })
}

// former settles a message whose publish was under way when the device's former session ended. One of a queue goes to another member first.
func (q *queue) former(n *note) {
	c, id := q.c, string(n.id)
	settle := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.settleLater(flying{id: id, kept: true})
	}
	if len(n.shares) == 0 {
		settle()
		return
	}
	c.gate.start(func() {
		if err := c.gate.move(c.gate.ctx, q.of, q.ended); err != nil { // it comes again at the next connection
			c.gate.cfg.Log.Warn("messages of an MQTT queue could not be moved to another member", "error", err)
			return
		}
		settle()
	})
}

// Probe implements session.Transport: the session lives as long as that of the connection.
func (q *queue) Probe() { q.sess.Alive() }

// Close implements session.Transport. The connection has its own goodbye.
func (q *queue) Close(frame.Goodbye) {}

// Pause and Resume implement session.Transport: nothing is verified.
func (q *queue) Pause()  {}
func (q *queue) Resume() {}

// Format implements session.Transport.
func (q *queue) Format() frame.Format { return format }

// Name implements session.Transport.
func (q *queue) Name() string { return "mqtt" }

// Cork implements session.Corker.
func (q *queue) Cork() { q.c.out.Cork() }

// Uncork implements session.Corker.
func (q *queue) Uncork() { q.c.out.Uncork() }

// follow notes a filter, and its QoS. The connection's lock is held.
func (q *queue) follow(s subscription) {
	if !slices.Contains(q.filters, s.filter) {
		q.filters = append(q.filters, s.filter)
	}
	delete(q.two, s.filter)
	if s.qos < 2 {
		return
	}
	if q.two == nil {
		q.two = make(map[string][]string)
	}
	_, q.two[s.filter] = parseFilter(s.filter)
}

// landed acknowledges a message of the queue.
func (c *conn) landed(f *flying, in *input) {
	c.mu.Lock()
	var q *queue
	if c.more != nil {
		q = c.more.queue
	}
	c.mu.Unlock()
	if q == nil {
		return
	}
	in.one[0] = []byte(f.id)
	in.frame = frame.Client{Kind: frame.KindAck, IDs: in.one[:]}
	q.sess.Frame(&in.frame)
}

// queueOf returns the connection's queue; nil: it has none.
func (c *conn) queueOf() *queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more == nil {
		return nil
	}
	return c.more.queue
}

// drainedQueue tells the queue that there is room.
func (c *conn) drainedQueue() {
	if !c.has(queued) {
		return
	}
	if q := c.queueOf(); q != nil {
		q.sess.Drained()
	}
}

// device is the device of a session that outlasts its connection. c.mu is held.
func (c *conn) device() filterdb.Device {
	s := c.more.state
	if s == nil {
		return filterdb.Device{}
	}
	return filterdb.Device{App: s.of.app, Recipient: s.of.recipient, Name: s.of.device}
}

// mayKeep reports whether a filter of topics can outlast its connection: its session does, and the app allows it.
func (c *conn) mayKeep(inner string) bool {
	g := c.gate
	if g.cfg.Filters == nil || !c.has(lasting) || c.has(observer) {
		return false
	}
	patterns, ok := toPatterns(inner)
	app, err := g.cfg.Access.App(c.sess.App())
	return ok && err == nil && topic.WithinAny(patterns[len(patterns)-1], app.MQTTKeep)
}

// keep stores filters of the connection's session, then calls done. The connection's queue begins with the first one.
func (c *conn) keep(subs []subscription, done func(error)) {
	filters := make([]string, len(subs))
	for i := range subs {
		filters[i] = subs[i].filter
	}
	c.mu.Lock()
	of, until := c.device(), c.until()
	c.mu.Unlock()
	c.gate.cfg.Filters.Keep(of, filters, until, func(err error) {
		if err == nil {
			c.openQueue(of, subs...)
		}
		done(err)
	})
}

// keepThen stores filters of a SUBSCRIBE packet, whose answer waits for that.
func (c *conn) keepThen(a *ask, keep []subscription) {
	if len(keep) == 0 {
		return
	}
	c.keep(keep, func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		a.keeping = false
		if err != nil {
			a.why = "the subscription cannot be stored now; subscribe again later"
			for i := range a.reasons {
				a.reasons[i] = wire.Unspecified
			}
		}
		if c.more != nil {
			c.answerReady()
		}
	})
}

// until is when the filters of a connected device are over, unless it is extended. c.mu is held.
func (c *conn) until() time.Time {
	return c.gate.cfg.Now().Add(time.Duration(c.more.expiry)*time.Second + lastMoment)
}

// openQueue begins the connection's queue, or adds filters to it.
func (c *conn) openQueue(of filterdb.Device, subs ...subscription) {
	c.mu.Lock()
	if c.more == nil || c.more.state == nil || c.has(ended) {
		c.mu.Unlock()
		return
	}
	q := c.more.queue
	fresh := q == nil
	if fresh {
		q = &queue{c: c, of: of, ended: c.gate.cfg.Filters.Ended(of)}
		q.sess = c.gate.cfg.Hub.Second(q)
		c.more.queue = q
		c.set(queued)
	}
	for _, s := range subs {
		q.follow(s)
	}
	window := int(min(c.more.receive, frame.MaxWindow))
	c.mu.Unlock()
	if !fresh {
		return
	}
	who := access.Client{App: of.App, Recipient: of.Mailbox(), Device: of.Name}
	q.sess.Join(who, &frame.Hello{Quiet: true, Window: window, Heartbeat: maxSilence})
	if c.has(ended) {
		q.sess.Closed()
	}
}

// mayHaveFilters reports whether another node may have stored filters of the client's device that this one has not read yet. The app's setting here does not
// matter: the other node may know of a change of it that has not come here.
func (c *conn) mayHaveFilters() bool {
	if g := c.gate; g.cfg.Filters == nil || !g.cfg.Several {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.more != nil && c.more.opening && c.more.of.Name != ""
}

// restoreQueue begins the queue of a client that is back, whose filters are stored. A clean start ends them.
func (c *conn) restoreQueue(of filterdb.Device) {
	if c.gate.cfg.Filters == nil || of.Name == "" {
		return
	}
	filters := c.gate.cfg.Filters.Filters(of)
	if len(filters) == 0 {
		return
	}
	if c.has(clean) {
		c.gate.cfg.Filters.Forget(of)
		return
	}
	c.mu.Lock()
	back := c.more != nil && c.more.state != nil // perhaps for this connection alone: what has waited comes all the same
	var until time.Time
	if back {
		until = c.until()
	}
	c.mu.Unlock()
	if back {
		c.gate.cfg.Filters.Extend(of, until)
		c.openQueue(of, c.wished(filters)...)
	}
}

// wished returns the subscriptions of the connection's session to some filters, each at the QoS that it has.
func (c *conn) wished(filters []string) (list []subscription) {
	subs := c.gate.kept.subscriptions(c.kept())
	for _, f := range filters {
		sub := subscription{filter: f, qos: 1}
		if i := slices.IndexFunc(subs, func(s subscription) bool { return s.filter == f }); i >= 0 {
			sub.qos = c.gate.highest(subs[i].qos)
		}
		list = append(list, sub)
	}
	return list
}

// dropKept ends a filter.
func (c *conn) dropKept(filter string) {
	q := c.queueOf()
	if q == nil {
		return
	}
	c.mu.Lock()
	i := slices.Index(q.filters, filter)
	if i >= 0 {
		q.filters = slices.Delete(q.filters, i, i+1)
		delete(q.two, filter)
	}
	c.mu.Unlock()
	if i >= 0 {
		c.gate.cfg.Filters.Drop(q.of, filter)
	}
}

// keeps reports whether a message that is in mailboxes comes to this client by its queue too. c.mu is not held.
func (c *conn) keeps(name string) bool {
	if !c.has(queued) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more == nil || c.more.queue == nil {
		return false
	}
	return slices.ContainsFunc(c.more.queue.filters, func(f string) bool {
		_, patterns := parseFilter(f)
		return slices.ContainsFunc(patterns, func(p string) bool { return topic.Match(p, name) })
	})
}

// parseFilter takes a filter of topics apart that was granted.
func parseFilter(filter string) (share string, patterns []string) {
	share, inner, _ := cutShare(filter)
	patterns, _ = toPatterns(inner)
	return share, patterns
}

// leaveQueue ends the queue with its connection. expiry: for how many seconds the session outlasts it.
func (g *Gateway) leaveQueue(q *queue, expiry uint32, replaced bool) {
	if q == nil {
		return
	}
	q.sess.Closed()
	if replaced { // the new connection has the device's filters
		return
	}
	if expiry == 0 {
		g.cfg.Filters.Forget(q.of)
		return
	}
	g.cfg.Filters.Extend(q.of, g.cfg.Now().Add(time.Duration(expiry)*time.Second))
}

// keptFor makes the notifications of a message that was published at QoS 1, for those who follow its topic while they are away.
func (g *Gateway) keptFor(app string, j *job) (drafts []*notification.Draft) {
	m := j.message
	here := func(box string) bool {
		names, err := g.cfg.Hub.Online(g.ctx, app, box)
		return err == nil && len(names) > 0
	}
	boxes, shares, rev := g.cfg.Filters.Match(app, m.Topic, here)
	ttl := notification.MaxTTL
	if j.expiry > 0 {
		ttl = min(ttl, time.Duration(j.expiry)*time.Second)
	}
	add := func(to []string, shares []string) {
		drafts = append(drafts, &notification.Draft{
			To: to, TTL: ttl, Alone: true,
			Content: notification.Content{Category: keptCategory, Title: fromTopic(m.Topic), Body: keptBody(m.ContentType, j.forward, shares), Data: m.Data, ContentType: matchedAt(rev, j.qos)},
		})
	}
	for box, by := range shares {
		add([]string{box}, by)
	}
	boxes = slices.DeleteFunc(boxes, func(box string) bool { return shares[box] != nil })
	for part := range slices.Chunk(boxes, notification.MaxRecipients) {
		add(part, nil)
	}
	return drafts
}

// keepFor finds the devices to which the messages of a batch go even if they are away.
func (l *lane) keepFor(ctx context.Context, batch []job) {
	if l.g.cfg.Filters == nil {
		return
	}
	err := l.fresh(ctx, batch)
	for i := range batch {
		j := &batch[i]
		if j.message == nil || j.qos == 0 {
			continue
		}
		if j.failed(err); err == nil {
			j.kept = l.g.keptFor(l.app, j)
			j.message.Kept = len(j.kept) > 0
		}
	}
}

// eraseRecipient deletes what waits for the devices of an erased recipient, with their filters.
func (g *Gateway) eraseRecipient(ctx context.Context, app, recipient string) (n int, err error) {
	if g.cfg.Sessions != nil {
		if n, err = g.cfg.Sessions.EraseRecipient(ctx, app, recipient); err != nil {
			return n, err // says what it erased
		}
	}
	if g.cfg.Filters == nil {
		return n, nil
	}
	some, err := g.cfg.Filters.EraseRecipient(ctx, app, recipient)
	return max(n, some), err // says what it erased; most devices are in both
}

// extendKept has the filters of connected devices last.
func (g *Gateway) extendKept() {
	if g.cfg.Filters == nil {
		return
	}
	g.cfg.Filters.Sweep()
	for of, until := range g.kept.due() {
		g.cfg.Filters.Extend(of, until)
	}
}

// due returns the connected devices whose filters have to be extended now, and until when.
func (k *keptSessions) due() map[filterdb.Device]time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.g.cfg.Now()
	if now.Before(k.extendAt) {
		return nil
	}
	k.extendAt = now.Add(lastMoment / 2)
	all := make(map[filterdb.Device]time.Time)
	for name, s := range k.all {
		if s.owner != nil && s.owner.has(queued) {
			all[filterdb.Device{App: name.app, Recipient: name.recipient, Name: name.device}] = now.Add(s.lasts + lastMoment)
		}
	}
	return all
}

// fresh has the filters that other nodes have stored.
func (l *lane) fresh(ctx context.Context, batch []job) error {
	if l.g.cfg.Filters == nil || !slices.ContainsFunc(batch, func(j job) bool { return j.message != nil && j.qos > 0 }) {
		return nil
	}
	return l.g.cfg.Filters.Fresh(ctx) // says what it read
}
