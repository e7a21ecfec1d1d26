package cluster

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
)

var _ session.Peers = (*Cluster)(nil)

// How presence paces itself.
const (
	decideEvery = 50 * time.Millisecond
	sayAgain    = 30 * time.Second // interval of repeated reports about recipients that are on several nodes
	forgetAfter = 75 * time.Second // what was not told anew
	tellAtOnce  = 1000             // recipients per message when reports are repeated after a loss; a larger number at once could be lost, too
)

// tellAgain are the delays after which a node repeats its report that a recipient has come. If a recipient comes to two nodes at once, the
// nodes can inform each other only when each is in the other's table.
var tellAgain = [...]time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second}

// presence holds the data that nodes exchange about recipients that are connected to several nodes. Nearly all recipients are connected to
// a single node: of those, only one other node has the name (see backups).
type presence struct {
	mu      sync.Mutex
	there   map[mailbox.Address]map[string]*theirs // by boot of the node
	again   [len(tellAgain) + 1][]reminder         // reports to repeat, each list ordered by time; the last list is for reports after a loss
	dirty   map[mailbox.Address]bool               // recipients to report; true: the other nodes must answer
	wake    chan struct{}
	claims  claims
	backups backups
}

// theirs are a recipient's sessions on another node.
type theirs struct {
	here
	heard time.Time
}

// reminder is a report about a recipient that is to be repeated.
type reminder struct {
	at  mailbox.Address
	due time.Time
}

// here is the body of kindHere: all sessions of a recipient on the sender.
type here struct {
	Devices []device `json:"devices,omitempty"`
	Ask     bool     `json:"ask,omitempty"` // nodes with other sessions of the recipient must answer
}

type device struct {
	Name    string `json:"name"`
	Named   bool   `json:"named,omitempty"`
	SinceMS int64  `json:"since_ms"`
	Micros  int64  `json:"us,omitempty"` // microseconds beyond the millisecond; nodes of earlier versions do not send them
}

func (d *device) since() time.Time { return time.UnixMicro(d.SinceMS*1000 + d.Micros) }

func (p *presence) init() {
	p.there = make(map[mailbox.Address]map[string]*theirs)
	p.dirty = make(map[mailbox.Address]bool)
	p.wake = make(chan struct{}, 1)
	p.claims.init()
	p.backups.init()
}

// Came implements session.Peers.
func (c *Cluster) Came(app, recipient string, first bool) {
	c.want(app, recipient)
	at := mailbox.Address{App: app, Recipient: recipient}
	p := &c.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	if first && c.present(at, 1) == 1 {
		c.claim(at, true)
	}
	if c.alone() {
		return
	}
	p.tell(at, true)
	now := time.Now()
	for i, after := range tellAgain {
		p.again[i] = append(p.again[i], reminder{at, now.Add(after)})
	}
}

// Left implements session.Peers.
func (c *Cluster) Left(app, recipient string, last bool) {
	at := mailbox.Address{App: app, Recipient: recipient}
	p := &c.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	if last && c.present(at, -1) == 0 {
		c.claim(at, false)
		delete(p.there, at)
	}
	if !c.alone() {
		p.tell(at, false)
	}
	c.drop(app, recipient)
}

// Flush implements session.Peers.
func (c *Cluster) Flush(ctx context.Context) error {
	c.tellTable()
	return c.line.Flush(ctx)
}

// Online implements session.Peers.
func (c *Cluster) Online(app, recipient string) (names []string) {
	p := &c.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.there[mailbox.Address{App: app, Recipient: recipient}] {
		for _, d := range t.Devices {
			names = append(names, d.Name)
		}
	}
	return names
}

// tell schedules a report of a recipient's sessions here to the nodes with its other sessions; tellPresence sends it.
func (p *presence) tell(at mailbox.Address, ask bool) {
	p.dirty[at] = p.dirty[at] || ask
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// tellPresence informs the other nodes which recipients came and went, and informs followers of recipients that came to their first node or
// left their last.
func (c *Cluster) tellPresence() {
	p := &c.presence
	tick, again := time.NewTicker(decideEvery), time.NewTicker(sayAgain)
	defer tick.Stop()
	defer again.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-p.wake:
		case now := <-tick.C:
			c.remind(now)
			c.decide(now)
			c.updateBackup()
			c.tellTable()
			c.sendTables()
		case now := <-again.C:
			p.refresh(now)
		}
		p.mu.Lock()
		dirty := p.dirty
		p.dirty = make(map[mailbox.Address]bool)
		p.mu.Unlock()
		for at, ask := range dirty {
			c.tellOf(at, ask)
		}
	}
}

// tellAll schedules a new report about every recipient here: others may have missed the recipients that came while messages were lost.
func (c *Cluster) tellAll() {
	var all []reminder
	now, p := time.Now(), &c.presence
	c.hub.Load().EachHere(func(app, recipient string) {
		after := time.Duration(len(all)/tellAtOnce) * decideEvery
		all = append(all, reminder{mailbox.Address{App: app, Recipient: recipient}, now.Add(after)})
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again[len(tellAgain)] = all
}

// remind repeats reports that are due, about recipients that are still connected here.
func (c *Cluster) remind(now time.Time) {
	p := &c.presence
	p.mu.Lock()
	var due []reminder
	for i := range p.again {
		q := &p.again[i]
		n := 0
		for n < len(*q) && !(*q)[n].due.After(now) {
			n++
		}
		due = append(due, (*q)[:n]...)
		if *q = (*q)[n:]; len(*q) == 0 {
			*q = nil
		}
	}
	p.mu.Unlock()
	for _, r := range due {
		if len(c.hub.Load().Here(r.at.App, r.at.Recipient)) > 0 {
			c.tellOf(r.at, true)
		}
	}
}

// refresh removes reports of other nodes that were not repeated within forgetAfter, and repeats this node's own reports of recipients that
// are on several nodes.
func (p *presence) refresh(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, nodes := range p.there {
		for boot, t := range nodes {
			if now.Sub(t.heard) > forgetAfter {
				delete(nodes, boot)
			}
		}
		if len(nodes) == 0 {
			delete(p.there, at)
			continue
		}
		p.tell(at, false)
	}
}

// forgetNode removes all reports of a dead node. If this node was its backup, it claims that the recipients connected to the dead node have
// left.
func (c *Cluster) forgetNode(boot string) {
	p := &c.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	c.tables.forget(boot)
	p.claims.forget(boot)
	c.bury(boot)
	for at, nodes := range p.there {
		if delete(nodes, boot); len(nodes) == 0 {
			delete(p.there, at)
		}
	}
}

// tellOf reports a recipient's sessions here to the nodes with its other sessions. With ask, they answer with theirs.
func (c *Cluster) tellOf(at mailbox.Address, ask bool) {
	to := c.subjects(nil, at.App, at.Recipient)
	if len(to) == 0 {
		return
	}
	c.tellTable()
	_ = c.publishTo(to, message{kind: kindHere, app: at.App, recipient: at.Recipient, body: text(here{Ask: ask, Devices: c.devices(at)})})
}

func (c *Cluster) devices(at mailbox.Address) (list []device) {
	for _, d := range c.hub.Load().Here(at.App, at.Recipient) {
		list = append(list, device{Name: d.Name, Named: d.Named, SinceMS: d.Since.UnixMilli(), Micros: d.Since.UnixMicro() % 1000})
	}
	return list
}

// gotHere records a recipient's sessions on another node. If a device connected there later than here, its session here ends.
func (c *Cluster) gotHere(hub *session.Hub, m *message) {
	var h here
	if json.Unmarshal(m.body, &h) != nil {
		c.counts.undecoded.Add(1)
		return
	}
	at := mailbox.Address{App: m.app, Recipient: m.recipient}
	mine := len(hub.Here(m.app, m.recipient)) > 0
	p := &c.presence
	p.mu.Lock()
	if mine {
		p.note(at, m.from, h)
		if h.Ask {
			p.tell(at, false)
		}
	}
	p.mu.Unlock()
	for _, d := range h.Devices {
		if d.Named {
			hub.Replaced(m.app, m.recipient, session.Device{Name: d.Name, Named: true, Since: d.since()}, m.from < c.cfg.Boot)
		}
	}
}

// newest returns the boot of the node with a session of a recipient that is newer than since; if named is set, only sessions of that device
// count.
func (p *presence) newest(at mailbox.Address, named string, since int64) (boot string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b, t := range p.there[at] {
		for _, d := range t.Devices {
			if (named == "" || d.Named && d.Name == named) && d.SinceMS > since {
				boot, since = b, d.SinceMS
			}
		}
	}
	return boot
}

// note stores the latest report of another node about a recipient.
func (p *presence) note(at mailbox.Address, boot string, h here) {
	nodes := p.there[at]
	if len(h.Devices) == 0 {
		if delete(nodes, boot); nodes != nil && len(nodes) == 0 {
			delete(p.there, at)
		}
		return
	}
	if nodes == nil {
		nodes = make(map[string]*theirs)
		p.there[at] = nodes
	}
	nodes[boot] = &theirs{here: h, heard: time.Now()}
}
