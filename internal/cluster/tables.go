package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// tables holds, for each other node, the recipients that are connected to it, as reported by that node: a message for a recipient goes to
// the nodes whose tables contain its hash. Each node numbers the changes of its own table. Heartbeats carry the last number; a node that
// has missed a change requests the whole table.
type tables struct {
	mu  sync.RWMutex
	all []*table
}

// table is another node's.
type table struct {
	boot, subject string
	number        uint64 // number of the last change in this table; 0: the node has reported nothing yet
	of            hashes

	whole    hashes    // the received parts of a table that is sent as a whole
	wholeOf  uint64    // its number
	wholeHas uint64    // parts
	later    []news    // changes that came between the parts
	laterHas int       // hashes in later
	waits    time.Time // when this node requested the table, or the last part came; zero: no table is under way
}

// mine is this node's own table: the connected recipients (interests) as reported to other nodes.
type mine struct {
	sending sync.Mutex    // held while changes are sent, so that they are sent in the order of their numbers
	number  atomic.Uint64 // number of the last change that was sent; 1 is the empty table

	mu      sync.Mutex
	changed []uint64        // who came or left since
	asked   map[string]bool // boots of nodes that have requested the whole table
	sends   *transfer       // nil: no table is under way
}

// transfer is a whole table that is being sent to one node.
type transfer struct {
	to          string
	number      uint64
	all         []uint64
	part, parts int
}

// Whole tables are sent slowly, since a line drops what exceeds 16 MB: one of 2,000,000 recipients, or those of many nodes at once, would
// never arrive. A node sends half a megabyte in a twentieth of a second, and requests four tables at a time.
const (
	partsAtOnce  = 16
	wholesAtOnce = 4
	// wholePatience is how long a node waits for the next part before it requests the table again.
	wholePatience = 2 * time.Second
	// laterMost limits the changes that are kept until a whole table is complete, in hashes.
	laterMost = 1 << 20
)

// hashesAtOnce is the number of hashes in one message, which has 32 KB. An arrived recipient is reported at the first read of its mailbox,
// together with all others in that batch of reads. A departed recipient is reported with the next arrival, or within a twentieth of a
// second (decideEvery). So a storm of hellos causes one message for each batch of reads.
const hashesAtOnce = 4096

func (mt *mine) init() {
	mt.number.Store(1)
	mt.asked = make(map[string]bool)
}

// changed schedules a recipient that came or left for the next message to the other nodes.
func (c *Cluster) changed(h uint64) {
	mt := &c.mine
	mt.mu.Lock()
	mt.changed = append(mt.changed, h)
	mt.mu.Unlock()
	c.former.changed(c, h)
}

// tellTable reports to the other nodes which recipients came and left. Messages published after it returns arrive after these reports.
func (c *Cluster) tellTable() {
	mt := &c.mine
	mt.sending.Lock()
	defer mt.sending.Unlock()
	mt.mu.Lock()
	changed := mt.changed
	mt.changed = nil
	mt.mu.Unlock()
	for some := range slices.Chunk(changed, hashesAtOnce) {
		n := news{number: mt.number.Load() + 1}
		for _, h := range some {
			if c.wants.has(h) {
				n.came = append(n.came, h)
			} else {
				n.left = append(n.left, h)
			}
		}
		_ = c.publish(allNodes, message{kind: kindTable, body: n.append(nil)}) // if it fails, a gap in the numbers shows the loss
		mt.number.Store(n.number)                                              // only after sending: heartbeats must not carry a number that was not sent
	}
}

// sendTables sends the next parts of the whole table to one of the nodes that have requested it.
func (c *Cluster) sendTables() {
	mt := &c.mine
	mt.sending.Lock()
	defer mt.sending.Unlock()
	tr := mt.next()
	if tr == nil {
		return
	}
	if tr.parts == 0 {
		tr.number, tr.all = mt.number.Load(), c.wants.all()
		tr.parts = max(1, (len(tr.all)+hashesAtOnce-1)/hashesAtOnce)
	}
	for range partsAtOnce {
		n := news{number: tr.number, part: uint64(tr.part + 1), parts: uint64(tr.parts)} // a node has some million recipients
		n.came = tr.all[tr.part*hashesAtOnce : min((tr.part+1)*hashesAtOnce, len(tr.all))]
		if c.publish(oneNode+tr.to, message{kind: kindTable, body: n.append(nil)}) != nil {
			mt.end(tr) // it asks again
			return
		}
		if tr.part++; tr.part == tr.parts {
			mt.end(tr)
			if tr.parts > partsAtOnce {
				c.lost() // what the other node stored meanwhile was not sent here
			}
			return
		}
	}
}

// next returns the table to send: the one under way, or one that was requested; nil: none was.
func (mt *mine) next() *transfer {
	mt.mu.Lock()
	defer mt.mu.Unlock()
	if mt.sends == nil {
		for to := range mt.asked {
			delete(mt.asked, to)
			mt.sends = &transfer{to: to}
			break
		}
	}
	return mt.sends
}

// end ends a transfer, unless another one has replaced it.
func (mt *mine) end(tr *transfer) {
	mt.mu.Lock()
	defer mt.mu.Unlock()
	if mt.sends == tr {
		mt.sends = nil
	}
}

// gotNoTable records that a node has missed part of this node's table. That node may therefore not have sent messages for recipients here,
// so sessions compare themselves with the store.
func (c *Cluster) gotNoTable(m *message) {
	mt := &c.mine
	mt.mu.Lock()
	mt.asked[m.from] = true
	if mt.sends != nil && mt.sends.to == m.from { // some of its parts were lost
		mt.sends = nil
	}
	mt.mu.Unlock()
	c.lost()
}

func (c *Cluster) gotTable(m *message) {
	n, err := decodeNews(m.body)
	if err != nil {
		c.counts.undecoded.Add(1)
		return
	}
	c.tables.take(m.from, &n, time.Now())
}

// checkTable requests a node's whole table if some of its changes have not arrived.
func (c *Cluster) checkTable(boot string, number uint64) {
	if c.tables.lacks(boot, number, time.Now()) {
		_ = c.publish(oneNode+boot, message{kind: kindNoTable})
	}
}

// subjects appends the subjects of the nodes that have reported that a recipient is connected to them.
func (c *Cluster) subjects(to []string, app, recipient string) []string {
	h := hashOf(app, recipient)
	to = c.tables.subjects(to, h)
	return c.former.subjects(to, h)
}

func (ts *tables) subjects(to []string, h uint64) []string {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	for _, t := range ts.all {
		if t.of.has(h) {
			to = append(to, t.subject)
		}
	}
	return to
}

// find returns the table of a node. ts.mu is held.
func (ts *tables) find(boot string) *table {
	for _, t := range ts.all {
		if t.boot == boot {
			return t
		}
	}
	return nil
}

// lacks records that a node is alive, and reports whether to request its table: changes up to number are missing, its table is not under
// way, and few others are. Number 0 means that the node keeps no table.
func (ts *tables) lacks(boot string, number uint64, now time.Time) bool {
	if number == 0 {
		return false
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.find(boot)
	if t == nil {
		t = &table{boot: boot, subject: oneNode + boot}
		ts.all = append(ts.all, t)
	}
	if t.number >= number || t.underWay(now) {
		return false
	}
	busy := 0
	for _, o := range ts.all {
		if o.underWay(now) {
			busy++
		}
	}
	if busy >= wholesAtOnce {
		return false // the next heartbeat asks
	}
	t.waits = now
	return true
}

func (t *table) underWay(now time.Time) bool {
	return !t.waits.IsZero() && now.Sub(t.waits) < wholePatience
}

// take applies changes that a node reports. It ignores changes of a node that has sent no heartbeat: the first heartbeat will show that
// they are missing.
func (ts *tables) take(boot string, n *news, now time.Time) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.find(boot)
	switch {
	case t == nil:
	case n.parts > 0:
		t.replace(n, now)
	default:
		if size := len(n.came) + len(n.left); t.wholeHas > 0 && t.laterHas+size <= laterMost {
			t.later, t.laterHas = append(t.later, *n), t.laterHas+size
		}
		t.change(n)
	}
}

// change applies a change, if it is the next one. Otherwise, the number in the next heartbeat will show that changes are missing.
func (t *table) change(n *news) {
	if n.number != t.number+1 {
		return
	}
	t.number = n.number
	for _, h := range n.came {
		t.of.add(h)
	}
	for _, h := range n.left {
		t.of.remove(h)
	}
}

// replace adds a part of a whole table, which takes effect when it is complete, with the changes that came between its parts.
func (t *table) replace(n *news, now time.Time) {
	if n.part == 1 {
		t.begin(n.number)
	}
	if n.number != t.wholeOf || n.part != t.wholeHas+1 {
		return // the next beat tells
	}
	if more := t.whole.n + len(n.came); t.wholeHas > 0 && float64(more) > fullAt*float64(len(t.whole.slots)) {
		t.whole.resize(2 * more) // growing by an eighth at a time would move each hash nine times
	}
	for _, h := range n.came {
		t.whole.add(h)
	}
	t.waits = now
	if t.wholeHas = n.part; t.wholeHas < n.parts {
		return
	}
	if len(t.whole.slots) > 2*t.whole.n && t.whole.n > leastSlots {
		t.whole.resize(t.whole.n)
	}
	t.of, t.number, t.waits = t.whole, t.wholeOf, time.Time{}
	later := t.later
	t.begin(0)
	for i := range later {
		t.change(&later[i])
	}
}

// begin begins to receive a whole table.
func (t *table) begin(number uint64) {
	t.whole, t.wholeOf, t.wholeHas, t.later, t.laterHas = hashes{}, number, 0, nil, 0
}

// forget removes the table of a dead node.
func (ts *tables) forget(boot string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.all = slices.DeleteFunc(ts.all, func(t *table) bool { return t.boot == boot })
}
