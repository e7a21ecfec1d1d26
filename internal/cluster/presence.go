package cluster

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"godwit.dev/godwit/internal/event"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/session"
)

var _ session.Peers = (*Cluster)(nil)

// How presence paces itself.
const (
	decideAfter = 250 * time.Millisecond // how long it is asked whether a recipient is online elsewhere before followers are told
	decideLater = 100 * time.Millisecond // how long a node is waited for that began to decide before
	mostWaits   = 3
	decideEvery = 50 * time.Millisecond
	sayAgain    = 30 * time.Second // a recipient who is on several nodes is told of anew
	forgetAfter = 75 * time.Second // what was not told anew
)

// tellAgain is when others are told again of somebody who has come. Two nodes to which one comes at once hear of each other
// only when what they want to hear has reached the other's bus.
var tellAgain = [...]time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second}

// presence is what nodes tell each other of recipients who are connected to several of them. Of one who is connected to a
// single node, and that is nearly all, nothing is kept.
type presence struct {
	mu       sync.Mutex
	there    map[mailbox.Address]map[string]*theirs // by boot of the node
	deciding map[mailbox.Address]*decision
	queue    []*decision                // in the order of their times
	late     []*decision                // those that wait for another node, likewise
	again    [len(tellAgain)][]reminder // to tell again, in the order of their times
	dirty    map[mailbox.Address]bool   // to be told of; true: and asked about
	wake     chan struct{}
}

// theirs is who of a recipient is connected to another node.
type theirs struct {
	here
	heard time.Time
}

// decision is whether followers are told that a recipient came or went: only the first node it comes to, and the last it
// goes from, tells. Of nodes that decide at once, the one that began first tells.
type decision struct {
	at     mailbox.Address
	coming bool  // else it has left here
	began  int64 // milliseconds of the store's clock
	until  time.Time
	waits  int
	told   bool // another node has told followers
}

// reminder is to tell of a recipient again.
type reminder struct {
	at  mailbox.Address
	due time.Time
}

// here is the body of kindHere: all that the sender has of a recipient.
type here struct {
	Devices []device `json:"devices,omitempty"`
	Ask     bool     `json:"ask,omitempty"`     // who has it too says so
	Coming  int64    `json:"coming,omitempty"`  // when the sender began to decide whether to tell followers that it came
	Leaving int64    `json:"leaving,omitempty"` // or that it left
	Told    bool     `json:"told,omitempty"`    // the sender has just told followers of what it decided
}

type device struct {
	Name    string `json:"name"`
	Named   bool   `json:"named,omitempty"`
	SinceMS int64  `json:"since_ms"`
}

func (p *presence) init() {
	p.there = make(map[mailbox.Address]map[string]*theirs)
	p.deciding = make(map[mailbox.Address]*decision)
	p.dirty = make(map[mailbox.Address]bool)
	p.wake = make(chan struct{}, 1)
}

// Came implements session.Peers.
func (c *Cluster) Came(app, recipient string, first bool) {
	c.want(app, recipient)
	at := mailbox.Address{App: app, Recipient: recipient}
	if c.alone() {
		if first {
			c.emit(event.Online, at)
		}
		return
	}
	p := &c.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	if first {
		c.decide(at, true)
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
	if c.alone() {
		c.drop(app, recipient)
		if last {
			c.emit(event.Offline, at)
		}
		return
	}
	p := &c.presence
	p.mu.Lock()
	if last {
		c.want(app, recipient) // until it is decided
		c.decide(at, false)
	}
	p.tell(at, last)
	p.mu.Unlock()
	c.drop(app, recipient)
}

// Flush implements session.Peers.
func (c *Cluster) Flush(ctx context.Context) error { return c.line.Flush(ctx) }

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

// decide begins a decision. One who comes while it is decided that it left, or the other way round, was neither. p.mu is
// held.
func (c *Cluster) decide(at mailbox.Address, coming bool) {
	p := &c.presence
	if d := p.deciding[at]; d != nil {
		delete(p.deciding, at)
		if d.coming != coming {
			if !coming {
				p.settle(c, at)
			}
			return
		}
	}
	d := &decision{at: at, coming: coming, began: c.cfg.Now().UnixMilli(), until: time.Now().Add(decideAfter)}
	p.deciding[at] = d
	p.queue = append(p.queue, d)
}

// settle ends what a leaving recipient still has here. p.mu is held.
func (p *presence) settle(c *Cluster, at mailbox.Address) {
	delete(p.there, at)
	c.drop(at.App, at.Recipient)
}

// tell has the other nodes told of a recipient soon.
func (p *presence) tell(at mailbox.Address, ask bool) {
	p.dirty[at] = p.dirty[at] || ask
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// tellPresence tells the other nodes of recipients who came and went, and followers what was decided.
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
			for _, d := range p.due(c, now) {
				c.decided(d)
			}
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

func (c *Cluster) emit(t event.Type, at mailbox.Address) {
	if hub := c.hub.Load(); hub != nil {
		hub.Emit(t, at.App, at.Recipient)
	}
}

// remind has others told again of those whose time has come, unless they have left.
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

// decided tells followers, and the other nodes that they need not.
func (c *Cluster) decided(d *decision) {
	h, t := here{Told: true, Leaving: d.began}, event.Offline
	if d.coming {
		h, t = here{Told: true, Coming: d.began, Devices: c.devices(d.at)}, event.Online
	}
	c.emit(t, d.at)
	c.tellHere(d.at, h)
}

// due takes the decisions whose time has come, and returns those of which followers are to be told.
func (p *presence) due(c *Cluster, now time.Time) (tell []*decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range []*[]*decision{&p.queue, &p.late} {
		n := 0
		for ; n < len(*q) && !(*q)[n].until.After(now); n++ {
			d := (*q)[n]
			if p.deciding[d.at] != d {
				continue // something else has happened since
			}
			told, wait := p.verdict(c, d)
			if wait {
				d.waits++
				d.until = now.Add(decideLater)
				p.late = append(p.late, d)
				continue
			}
			delete(p.deciding, d.at)
			if told {
				tell = append(tell, d)
			}
			if !d.coming {
				p.settle(c, d.at)
			}
		}
		if *q = (*q)[n:]; len(*q) == 0 {
			*q = nil
		}
	}
	return tell
}

// verdict says whether followers are to be told by this node, or whether that is for another to say first. p.mu is held.
func (p *presence) verdict(c *Cluster, d *decision) (tell, wait bool) {
	if d.told {
		return false, false
	}
	for boot, t := range p.there[d.at] {
		theirs := t.Leaving
		if d.coming {
			theirs = t.Coming
		}
		switch {
		case len(t.Devices) > 0 && (!d.coming || t.Coming == 0):
			return false, false // it is there
		case d.coming && t.Leaving > 0 && time.Since(t.heard) < 2*decideAfter:
			return false, false // it went from there to here
		case theirs > 0 && (theirs < d.began || theirs == d.began && boot < c.cfg.Boot):
			wait = d.waits < mostWaits
		}
	}
	return !wait, wait
}

// refresh forgets what was not told anew, and has those who are on several nodes told of anew.
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

// forgetNode forgets what a node had that is gone.
func (p *presence) forgetNode(boot string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, nodes := range p.there {
		if delete(nodes, boot); len(nodes) == 0 {
			delete(p.there, at)
		}
	}
}

// tellOf tells the other nodes who of a recipient is connected here.
func (c *Cluster) tellOf(at mailbox.Address, ask bool) {
	h := here{Ask: ask}
	p := &c.presence
	p.mu.Lock()
	if d := p.deciding[at]; d != nil && d.coming {
		h.Coming = d.began
	} else if d != nil {
		h.Leaving = d.began
	}
	p.mu.Unlock()
	h.Devices = c.devices(at)
	c.tellHere(at, h)
}

func (c *Cluster) tellHere(at mailbox.Address, h here) {
	_ = c.publish(subjectOf(at.App, at.Recipient), message{kind: kindHere, app: at.App, recipient: at.Recipient, body: text(h)})
}

func (c *Cluster) devices(at mailbox.Address) (list []device) {
	for _, d := range c.hub.Load().Here(at.App, at.Recipient) {
		list = append(list, device{Name: d.Name, Named: d.Named, SinceMS: d.Since.UnixMilli()})
	}
	return list
}

// gotHere notes who of a recipient another node has. A device that is there since later is not here any more.
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
	d := p.deciding[at]
	if mine || d != nil {
		p.note(at, m.from, h)
		if d != nil && h.Told {
			d.told = d.told || d.coming == (h.Coming > 0)
		}
		if h.Ask {
			p.tell(at, false)
		}
	}
	p.mu.Unlock()
	for _, d := range h.Devices {
		if d.Named {
			hub.Replaced(m.app, m.recipient, session.Device{Name: d.Name, Named: true, Since: time.UnixMilli(d.SinceMS)}, m.from < c.cfg.Boot)
		}
	}
}

// newest names the node that has a newer session of a recipient than since, of a device if it is named.
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

// note keeps what another node said last. What it told followers is decided there.
func (p *presence) note(at mailbox.Address, boot string, h here) {
	if h.Told {
		h.Coming, h.Leaving = 0, 0
	}
	nodes := p.there[at]
	if len(h.Devices) == 0 && h.Leaving == 0 {
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
