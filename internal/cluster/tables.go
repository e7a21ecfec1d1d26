package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
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

	whole    hashes // the received parts of a table that is sent as a whole
	wholeOf  uint64 // its number
	wholeHas uint64 // parts
}

// mine is this node's own table: the connected recipients (interests) as reported to other nodes.
type mine struct {
	sending sync.Mutex    // held while changes are sent, so that they are sent in the order of their numbers
	number  atomic.Uint64 // number of the last change that was sent; 1 is the empty table

	mu      sync.Mutex
	changed []uint64        // who came or left since
	asked   map[string]bool // boots of nodes that have requested the whole table
}

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

// sendTables sends the whole table to one of the nodes that have requested it; the next call serves the next node.
func (c *Cluster) sendTables() {
	mt := &c.mine
	to := ""
	mt.mu.Lock()
	for to = range mt.asked {
		delete(mt.asked, to)
		break
	}
	mt.mu.Unlock()
	if to == "" {
		return
	}
	mt.sending.Lock()
	defer mt.sending.Unlock()
	all := c.wants.all()
	parts := max(1, (len(all)+hashesAtOnce-1)/hashesAtOnce)
	for i := range parts {
		n := news{number: mt.number.Load(), part: uint64(i + 1), parts: uint64(parts)} //nolint:gosec // a node has some thousand recipients
		n.came = all[i*hashesAtOnce : min((i+1)*hashesAtOnce, len(all))]
		if c.publish(oneNode+to, message{kind: kindTable, body: n.append(nil)}) != nil {
			return // it asks again
		}
	}
}

// gotNoTable records that a node has missed part of this node's table. That node may therefore not have sent messages for recipients here,
// so sessions compare themselves with the store.
func (c *Cluster) gotNoTable(m *message) {
	mt := &c.mine
	mt.mu.Lock()
	mt.asked[m.from] = true
	mt.mu.Unlock()
	c.lost()
}

func (c *Cluster) gotTable(m *message) {
	n, err := decodeNews(m.body)
	if err != nil {
		c.counts.undecoded.Add(1)
		return
	}
	c.tables.take(m.from, &n)
}

// checkTable requests a node's whole table if some of its changes have not arrived.
func (c *Cluster) checkTable(boot string, number uint64) {
	if c.tables.lacks(boot, number) {
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

// lacks records that a node is alive, and reports whether changes up to number are missing from its table. Number 0 means that the node
// keeps no table.
func (ts *tables) lacks(boot string, number uint64) bool {
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
	return t.number < number
}

// take applies changes that a node reports. It ignores changes of a node that has sent no heartbeat: the first heartbeat will show that
// they are missing.
func (ts *tables) take(boot string, n *news) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.find(boot)
	switch {
	case t == nil:
	case n.parts > 0:
		t.replace(n)
	case n.number == t.number+1:
		t.number = n.number
		for _, h := range n.came {
			t.of.add(h)
		}
		for _, h := range n.left {
			t.of.remove(h)
		}
	default: // the number in the next heartbeat will show that changes are missing
	}
}

// replace adds a part of a whole table, which takes effect when it is complete.
func (t *table) replace(n *news) {
	if n.part == 1 {
		t.whole, t.wholeOf, t.wholeHas = hashes{}, n.number, 0
	}
	if n.number != t.wholeOf || n.part != t.wholeHas+1 {
		return // the next beat tells
	}
	for _, h := range n.came {
		t.whole.add(h)
	}
	if t.wholeHas = n.part; t.wholeHas == n.parts {
		t.of, t.number = t.whole, t.wholeOf
		t.whole, t.wholeOf, t.wholeHas = hashes{}, 0, 0
	}
}

// forget removes the table of a dead node.
func (ts *tables) forget(boot string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.all = slices.DeleteFunc(ts.all, func(t *table) bool { return t.boot == boot })
}
