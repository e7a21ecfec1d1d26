package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Time limits for noticing lost nodes.
const (
	beatEvery   = time.Second
	lateAfter   = 2 * time.Second  // without a heartbeat for this time, a node may have failed: changes of objects are read from the store
	silentAfter = 3 * time.Second  // without a heartbeat for this time, a node is missing: it may be alive while the bus is cut
	goneAfter   = 20 * time.Second // without a Roll, a node that is missing for this time counts as gone
	rollEvery   = 5 * time.Second
	rereadEvery = 4 * time.Second // while a node is missing
)

// rereadAfter are the times after a possible loss at which sessions compare themselves with the store: at once, and later when nodes that
// have just joined know the connected recipients.
var rereadAfter = [...]time.Duration{0, time.Second, 5 * time.Second}

// beat is the heartbeat that a node sends every second.
type beat struct {
	Node     string `json:"node"`
	Version  string `json:"version"`
	UpMS     int64  `json:"up_ms"` // time since its start, by its monotonic clock
	N        uint64 `json:"n"`     // of its beats
	Dropped  uint64 `json:"dropped"`
	Sessions int    `json:"sessions"`
	NowMS    int64  `json:"now_ms"` // its store's clock
	Drains   bool   `json:"drains,omitempty"`
	Claims   bool   `json:"claims,omitempty"` // the sender answers claims; nodes of earlier releases do not
	Backup   string `json:"warden,omitempty"` // boot of the node that is the sender's backup
	Roster   uint64 `json:"roster,omitempty"` // number of roster messages sent to the backup
	Table    uint64 `json:"table,omitempty"`  // number of its table's last change; 0 from nodes of earlier releases, which have no table
	// StoreMS is the time since the shared store last answered the sender, in milliseconds; nil: unknown.
	StoreMS *int64 `json:"store_ms,omitempty"`
	// LagMS is how late the sender's feeds are, in milliseconds; nil: unknown.
	LagMS *int64 `json:"lag_ms,omitempty"`
	Work
}

// node is another node.
type node struct {
	beat
	boot   string
	heard  time.Time
	offset time.Duration // its clock minus this node's, including the transit time of a message
	did    readings
}

// nodes holds the other nodes that are or may be alive.
type nodes struct {
	mu     sync.Mutex
	by     map[string]*node // by boot
	others atomic.Int32     // len(by), to be read without a lock on each publish
	n      uint64           // our beats
	own    readings
	lag    *int64 // milliseconds; nil: not known yet
	drains bool
	lives  map[string]bool // boots of nodes that were alive at the last reading of the store; nil: not read yet
	dead   []Member        // nodes that were lost at that reading
}

func (ns *nodes) init() { ns.by = make(map[string]*node) }

// alone reports whether there are no other nodes.
func (c *Cluster) alone() bool { return c.nodes.others.Load() == 0 }

// beat sends a heartbeat every second, and checks which other nodes are alive.
func (c *Cluster) beat() {
	c.say()
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	var reread time.Time
	for {
		select {
		case <-c.ctx.Done():
			return
		case now := <-tick.C:
			c.say()
			missing, late := c.forgetGone(now)
			c.former.look(c)
			if late {
				c.objectsMissed()
			}
			if missing && now.Sub(reread) >= rereadEvery {
				reread = now
				c.hub.Load().RereadAll()
			}
		}
	}
}

func (c *Cluster) say() {
	backup, sent := c.presence.backup()
	var work Work
	if c.cfg.Work != nil {
		work = c.cfg.Work()
	}
	ns := &c.nodes
	ns.mu.Lock()
	ns.n++
	ns.own.add(time.Now(), work)
	b := beat{
		Work:   work,
		Claims: true, Backup: backup, Roster: sent, Table: c.mine.number.Load(),
		Node: c.cfg.Node, Version: c.cfg.Version, UpMS: time.Since(c.started).Milliseconds(), N: ns.n, Dropped: c.line.Dropped(),
		Sessions: c.hub.Load().Live(), NowMS: c.cfg.Now().UnixMilli(), Drains: ns.drains, LagMS: ns.lag,
	}
	ns.mu.Unlock()
	if c.cfg.Heard != nil {
		ms := c.cfg.Heard().Milliseconds()
		b.StoreMS = &ms
	}
	_ = c.publish(allNodes, message{kind: kindBeat, body: text(b)})
}

// forgetGone removes nodes that were silent for long, and reports whether some nodes are missing, or late with their heartbeat.
func (c *Cluster) forgetGone(now time.Time) (missing, late bool) {
	ns := &c.nodes
	ns.mu.Lock()
	var gone []*node
	for boot, n := range ns.by {
		silent := now.Sub(n.heard)
		switch {
		case silent > goneAfter && c.cfg.Roll == nil:
			gone = append(gone, n)
			delete(ns.by, boot)
		case silent > lateAfter:
			late, missing = true, missing || silent > silentAfter
		}
	}
	ns.others.Store(int32(len(ns.by)))
	ns.mu.Unlock()
	for _, n := range gone {
		c.lostNode(n, "fell silent")
	}
	return missing, late
}

// keepRoll reads the live nodes from the store at intervals. It runs in a goroutine of its own, because the store may be slow while
// heartbeats must continue.
func (c *Cluster) keepRoll() {
	if c.cfg.Roll == nil {
		return
	}
	tick := time.NewTicker(rollEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
			c.callRoll()
		}
	}
}

// callRoll removes dead nodes, and records nodes that are alive but silent.
func (c *Cluster) callRoll() {
	ctx, cancel := context.WithTimeout(c.ctx, rollEvery)
	defer cancel()
	alive, names, dead, err := c.askRoll(ctx)
	if err != nil {
		return // the store is unavailable, which is reported elsewhere
	}
	now, ns := time.Now(), &c.nodes
	ns.mu.Lock()
	ns.dead, ns.lives = dead, make(map[string]bool, len(alive))
	for _, boot := range alive {
		ns.lives[boot] = true
	}
	var gone []*node
	for boot, n := range ns.by {
		if now.Sub(n.heard) > silentAfter && !slices.Contains(alive, boot) {
			gone = append(gone, n)
			delete(ns.by, boot)
		}
	}
	for _, boot := range alive {
		if ns.by[boot] == nil && boot != c.cfg.Boot {
			ns.by[boot] = &node{boot: boot, beat: beat{Node: names[boot]}} // never heard: missing
		}
	}
	ns.others.Store(int32(len(ns.by)))
	ns.mu.Unlock()
	for _, n := range gone {
		c.lostNode(n, "does not live any more")
	}
}

// askRoll reads from the store the boots of the live nodes, their names if known, and the lost nodes.
func (c *Cluster) askRoll(ctx context.Context) (alive []string, names map[string]string, dead []Member, err error) {
	if alive, err = c.cfg.Roll.Alive(ctx); err != nil {
		return nil, nil, nil, err
	}
	ledger, ok := c.cfg.Roll.(Ledger)
	if !ok {
		return alive, nil, nil, nil
	}
	members, err := ledger.Members(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	names = make(map[string]string, len(members))
	for _, m := range members {
		if names[m.Boot] = m.Name; !m.Lives && m.Name != c.cfg.Node {
			dead = append(dead, m)
		}
	}
	return alive, names, dead, nil
}

// Forgotten records that a lost node was removed from the list.
func (c *Cluster) Forgotten(name string) {
	ns := &c.nodes
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.dead = slices.DeleteFunc(slices.Clone(ns.dead), func(m Member) bool { return m.Name == name })
}

func (c *Cluster) lostNode(n *node, why string) {
	c.log.Warn("a node is gone", "node", n.Node, "boot", n.boot, "why", why)
	c.forgetNode(n.boot)
}

func (c *Cluster) gotBeat(m *message) {
	var b beat
	if json.Unmarshal(m.body, &b) != nil {
		c.counts.undecoded.Add(1)
		return
	}
	if b.Node == c.cfg.Node && c.youngerThan(m.from, b) {
		c.taken.Do(func() {
			c.cfg.Taken(fmt.Errorf("another node called %s is alive: give this one a name of its own with --node", b.Node))
		})
		return
	}
	ns := &c.nodes
	ns.mu.Lock()
	n := ns.by[m.from]
	first := n == nil || n.heard.IsZero()
	missed := !first && (b.N != n.N+1 || b.Dropped != n.Dropped)
	if n == nil {
		n = &node{boot: m.from}
		ns.by[m.from] = n
		ns.others.Store(int32(len(ns.by)))
	}
	n.beat, n.heard, n.offset = b, time.Now(), time.UnixMilli(b.NowMS).Sub(c.cfg.Now())
	n.did.add(n.heard, b.Work)
	var former []*node // boots of the same name
	for boot, o := range ns.by {
		if first && o.Node == b.Node && o != n {
			former = append(former, o)
			delete(ns.by, boot)
		}
	}
	ns.others.Store(int32(len(ns.by)))
	ns.mu.Unlock()
	for _, o := range former {
		c.forgetNode(o.boot)
	}
	if first {
		c.log.Info("a node has joined", "node", b.Node, "boot", m.from, "version", b.Version)
		c.say()
	}
	if first || missed {
		c.lost()
	}
	c.former.look(c)
	c.checkTable(m.from, b.Table)
	c.checkRoster(m.from, b)
}

// youngerThan reports whether this node started after another node of the same name, which then keeps the name.
func (c *Cluster) youngerThan(boot string, b beat) bool {
	up := time.Since(c.started).Milliseconds()
	return up < b.UpMS || up == b.UpMS && c.cfg.Boot > boot
}

func (c *Cluster) gotBye(m *message) {
	ns := &c.nodes
	ns.mu.Lock()
	n := ns.by[m.from]
	delete(ns.by, m.from)
	ns.others.Store(int32(len(ns.by)))
	ns.mu.Unlock()
	if n != nil {
		c.log.Info("a node has left", "node", n.Node, "boot", n.boot)
		c.forgetNode(n.boot)
	}
}

// listening lists the boots of the nodes that can answer. all reports that no other nodes may be alive.
func (c *Cluster) listening() (boots []string, all bool) {
	now, ns := time.Now(), &c.nodes
	all = true
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for boot, n := range ns.by {
		if now.Sub(n.heard) > silentAfter {
			all = false
			continue
		}
		boots = append(boots, boot)
	}
	slices.SortFunc(boots, cmp.Compare[string])
	return boots, all
}

// deciding lists the boots of the nodes that answer claims and have sent a heartbeat lately, sorted.
func (c *Cluster) deciding() (boots []string) {
	now, ns := time.Now(), &c.nodes
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for boot, n := range ns.by {
		if n.Claims && now.Sub(n.heard) <= silentAfter {
			boots = append(boots, boot)
		}
	}
	slices.Sort(boots)
	return boots
}

// lost handles a possible loss of messages: soon, sessions compare themselves with the store, and changes of objects are read.
func (c *Cluster) lost() {
	c.objectsMissed()
	select {
	case c.reread <- struct{}{}:
	default:
	}
}

// keepReread makes sessions compare themselves with the store after a loss. A further loss restarts the schedule.
func (c *Cluster) keepReread() {
	var due []time.Time
	for {
		var next <-chan time.Time
		var timer *time.Timer
		if len(due) > 0 {
			timer = time.NewTimer(time.Until(due[0]))
			next = timer.C
		}
		select {
		case <-c.ctx.Done():
		case <-c.reread:
			soon := time.Now()
			if len(due) > 0 && due[0].Before(soon.Add(rereadAfter[1])) {
				soon = due[0] // keep a comparison that is due soon, so that repeated losses cannot postpone it for ever
			}
			due = due[:0]
			for _, after := range rereadAfter {
				due = append(due, soon.Add(after))
			}
		case <-next:
			due = due[1:]
			c.counts.rereads.Add(1)
			c.hub.Load().RereadAll()
			if len(due) == 0 { // nothing was lost for seconds
				c.tellAll()
			}
		}
		if timer != nil {
			timer.Stop()
		}
		if c.ctx.Err() != nil {
			return
		}
	}
}
