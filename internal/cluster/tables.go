package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
)

// tables list the recipients that are connected to each other node, as that node reports them: a message for a recipient goes to the
// nodes whose tables contain its hash. Each node numbers the changes of its own table; heartbeats carry the last number, and a node
// that lacks a change asks for the whole table.
type tables struct {
	mu  sync.RWMutex
	all []*table
}

// table is another node's.
type table struct {
	boot, subject string
	number        uint64 // of the last change in this table; 0: the node has reported nothing yet
	of            hashes

	whole    hashes // the parts received so far of a table that is sent as a whole
	wholeOf  uint64 // its number
	wholeHas uint64 // parts
}

// mine is this node's own table: what other nodes have been sent about the recipients that are connected here
// (interests).
type mine struct {
	sending sync.Mutex    // held while changes are sent, so that they leave in the order of their numbers
	number  atomic.Uint64 // of the last change that was sent; 1 is the empty table

	mu      sync.Mutex
	changed []uint64        // who came or left since
	asked   map[string]bool // boots of nodes that lack something
}

// hashesAtOnce is how many hashes go in one message: 32 KB. A recipient that comes is announced at the first read of its mailbox,
// together with all others in that batch of reads; one that leaves, with the next that comes or within a twentieth of a second
// (decideEvery). So a storm of hellos is one message for each batch of reads.
const hashesAtOnce = 4096

func (mt *mine) init() {
	mt.number.Store(1)
	mt.asked = make(map[string]bool)
}

// changed notes that a recipient came or left, for the next message to the other nodes.
func (c *Cluster) changed(h uint64) {
	mt := &c.mine
	mt.mu.Lock()
	mt.changed = append(mt.changed, h)
	mt.mu.Unlock()
	c.former.changed(c, h)
}

// tellTable tells the other nodes which recipients came and left. Messages published after it returns arrive after
// these.
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
		_ = c.publish(allNodes, message{kind: kindTable, body: n.append(nil)}) // a gap in the numbers shows a loss
		mt.number.Store(n.number)                                              // only now: heartbeats must not carry a number that was not sent
	}
}

// sendTables sends the whole table to one of the nodes that asked for it; the next call serves the next node.
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

// gotNoTable notes that a node lacks part of this one's table. Messages that it published for recipients here may be missing; so
// sessions compare themselves.
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

// checkTable asks a node for its whole table if some of its changes have not arrived.
func (c *Cluster) checkTable(boot string, number uint64) {
	if c.tables.lacks(boot, number) {
		_ = c.publish(oneNode+boot, message{kind: kindNoTable})
	}
}

// subjects adds the subjects of the nodes that a recipient is connected to, as far as they have reported it.
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

// lacks notes that a node is alive, and reports whether changes up to number are missing from its table. With number 0
// it keeps no table.
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

// take applies changes that a node reports. Changes of a node without a heartbeat so far are ignored: its heartbeat will
// show that they are missing.
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
	default: // the number in the next heartbeat shows that changes are missing
	}
}

// replace takes a part of the whole table, which is in effect when it is complete.
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

// forget drops the table of a dead node.
func (ts *tables) forget(boot string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.all = slices.DeleteFunc(ts.all, func(t *table) bool { return t.boot == boot })
}
