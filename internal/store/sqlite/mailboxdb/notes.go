package mailboxdb

import (
	"context"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
)

const (
	// noteEvery is how long marks and sightings wait: long enough that a quick ack carries a mark along.
	noteEvery = time.Second
	// noteSlice is how many go into one commit.
	noteSlice = 250
	// maxNotes bounds what waits: beyond it new marks and sightings are dropped, which their contract allows.
	maxNotes = 1 << 20
	// maxRetried bounds the acks that wait for space on a full disk; others are redelivered and acknowledged again.
	maxRetried = 1 << 16
)

// mark is a delivery that has not been written yet.
type mark struct {
	mailboxName
	pos         int64
	deliveredAt int64
	since       int64
	attempts    uint32
}

type mailboxName struct{ app, recipient string }

type sighting struct {
	at      int64
	devices map[string]int64
}

// notes are the marks and sightings that wait to be written, and settles that a full disk refused.
type notes struct {
	s        *Store
	mu       sync.Mutex
	marks    map[int64]mark
	seen     map[mailboxName]*sighting
	settles  []*mailbox.Settle
	stopping chan struct{}
	wg       sync.WaitGroup
}

func (n *notes) start(s *Store) {
	n.s, n.stopping = s, make(chan struct{})
	n.marks, n.seen = make(map[int64]mark), make(map[mailboxName]*sighting)
	n.wg.Go(n.run)
}

func (n *notes) close() {
	close(n.stopping)
	n.wg.Wait()
	n.write(true)
}

func (n *notes) run() {
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.stopping:
			return
		case <-tick.C:
		}
		n.write(false)
		n.retrySettles()
		n.s.lookInside()
		if err := n.s.space.Restore(); err != nil {
			n.s.cfg.Log.Warn("ballast could not be made", "error", err)
		}
	}
}

// lookInside notes how much of the file can be used again.
func (s *Store) lookInside() {
	free, err := s.db.FreeInside(context.Background())
	if err != nil {
		s.cfg.Log.Warn("free pages could not be counted", "error", err)
		return
	}
	s.freeInside.Store(free)
}

// Mark implements mailbox.Store.
func (s *Store) Mark(batch []mailbox.Mark) {
	n := &s.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	now := s.now()
	for i := range batch {
		m := &batch[i]
		old, ok := n.marks[m.Pos]
		if !ok {
			if len(n.marks) >= maxNotes {
				continue
			}
			old = mark{mailboxName: mailboxName{m.App, m.Recipient}, pos: m.Pos, since: now}
		}
		old.attempts = max(old.attempts, m.Attempts)
		if old.deliveredAt == 0 {
			old.deliveredAt = toMS(m.DeliveredAt)
		}
		n.marks[m.Pos] = old
	}
}

// Seen implements mailbox.Store.
func (s *Store) Seen(batch []mailbox.Seen) {
	n := &s.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range batch {
		key := mailboxName{m.App, m.Recipient}
		old := n.seen[key]
		if old == nil {
			if len(n.seen) >= maxNotes {
				continue
			}
			old = &sighting{}
			n.seen[key] = old
		}
		at := toMS(m.At)
		old.at = max(old.at, at)
		if m.Device != "" {
			if old.devices == nil {
				old.devices = make(map[string]int64)
			}
			old.devices[m.Device] = max(old.devices[m.Device], at)
		}
	}
}

// takeMark removes and returns what is noted of a copy that is about to be settled.
func (n *notes) takeMark(pos int64) mark {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.marks[pos]
	delete(n.marks, pos)
	return m
}

// devicesOf are devices seen since then that are not in the table yet.
func (n *notes) devicesOf(app, recipient string, since int64) (devices []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.seen[mailboxName{app, recipient}]; s != nil {
		for name, at := range s.devices {
			if at >= since {
				devices = append(devices, name)
			}
		}
	}
	return devices
}

// forget drops what is noted of a recipient.
func (n *notes) forget(app, recipient string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.seen, mailboxName{app, recipient})
}

// lastSeen adds what is not in the table yet.
func (n *notes) lastSeen(app, recipient string) (at int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.seen[mailboxName{app, recipient}]; s != nil {
		at = s.at
	}
	return at
}

// settleAgain keeps settles that nobody waits for when the disk was full.
func (n *notes) settleAgain(batch []*mailbox.Settle, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.settles)+len(batch) <= maxRetried {
		n.settles = append(n.settles, batch...)
		return
	}
	n.s.cfg.Log.Warn("acknowledgements were lost; they will come again", "count", len(batch), "error", err)
}

func (n *notes) retrySettles() {
	n.mu.Lock()
	batch := n.settles
	n.settles = nil
	n.mu.Unlock()
	if len(batch) > 0 {
		n.s.SettleLater(batch)
	}
}

// write hands over what has waited long enough, or everything.
func (n *notes) write(all bool) {
	n.mu.Lock()
	before := n.s.now() - noteEvery.Milliseconds()/2
	var marks []mark
	for pos, m := range n.marks {
		if all || m.since <= before {
			marks = append(marks, m)
			delete(n.marks, pos)
		}
	}
	seen := n.seen
	n.seen = make(map[mailboxName]*sighting)
	n.mu.Unlock()
	for len(marks) > 0 {
		k := min(len(marks), noteSlice)
		n.s.db.SubmitBulk(&noteOp{s: n.s, marks: marks[:k:k]})
		marks = marks[k:]
	}
	op := &noteOp{s: n.s}
	for name, what := range seen {
		op.seen = append(op.seen, seenNote{name, what})
		if len(op.seen) == noteSlice {
			n.s.db.SubmitBulk(op)
			op = &noteOp{s: n.s}
		}
	}
	if len(op.seen) > 0 {
		n.s.db.SubmitBulk(op)
	}
}

type seenNote struct {
	name mailboxName
	*sighting
}

// noteOp writes marks and sightings. If that fails they are lost.
type noteOp struct {
	s     *Store
	marks []mark
	seen  []seenNote
}

func (op *noteOp) Size() (rows, bytes int) {
	n := len(op.marks) + 2*len(op.seen)
	return n, 100 * n
}

func (op *noteOp) Done(err error) {
	if err != nil {
		op.s.cfg.Log.Warn("deliveries and sightings were not noted", "marks", len(op.marks), "sightings", len(op.seen), "error", err)
	}
}

func (op *noteOp) Apply(*sqlite.Conn) error {
	for _, m := range op.marks {
		r, err := op.s.known(m.app, m.recipient)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		if e := r.find(m.pos); e != nil {
			if err := op.s.recordMark(r, e, m); err != nil {
				return err
			}
		}
	}
	for _, n := range op.seen {
		if err := op.s.recordSeen(n); err != nil {
			return err
		}
	}
	return nil
}

// recordMark writes a delivery of a pending copy.
func (s *Store) recordMark(r *recipient, e *entry, m mark) error {
	if e.is(flagScheduled) || m.deliveredAt == 0 && m.attempts == 0 {
		return nil
	}
	st := s.stmts.markNote
	status := notification.Delivered
	if m.deliveredAt == 0 {
		status = e.status()
	}
	st.BindInt64(1, e.pos)
	st.BindInt64(2, m.deliveredAt)
	st.BindInt64(3, int64(m.attempts))
	st.BindInt64(4, int64(status))
	if err := exec(st); err != nil {
		return err
	}
	if m.deliveredAt > 0 && !e.is(flagDelivered) {
		s.tx.marked = append(s.tx.marked, ref{r, e.pos})
	}
	return nil
}

// seenAt writes when a recipient was seen last and returns its key. (One upsert that returns the key would do, but SQLite
// keeps a journal for each such statement, which takes longer than looking first.)
func (s *Store) seenAt(app int64, name string, at int64) (key int64, err error) {
	read := s.stmts.readRecipient
	read.BindInt64(1, app)
	read.BindText(2, name)
	err = each(read, func(st *sqlite.Stmt) error {
		key = st.ColumnInt64(0)
		return nil
	})
	switch {
	case err != nil:
		return 0, err
	case key == 0:
		s.stmts.insertSeen.BindInt64(1, app)
		s.stmts.insertSeen.BindText(2, name)
		s.stmts.insertSeen.BindInt64(3, at)
		err = exec(s.stmts.insertSeen)
		return s.stmts.conn.LastInsertRowID(), err
	}
	s.stmts.saveSeen.BindInt64(1, key)
	s.stmts.saveSeen.BindInt64(2, at)
	return key, exec(s.stmts.saveSeen)
}

// recordSeen writes a sighting. It leaves the recipient out of memory: most who connect have nothing pending.
func (s *Store) recordSeen(n seenNote) error {
	a, err := s.internApp(n.name.app)
	if err != nil {
		return err
	}
	key, err := s.seenAt(a.key, n.name.recipient, n.at)
	if err != nil {
		return err
	}
	for name, at := range n.devices {
		s.stmts.saveDevice.BindInt64(1, key)
		s.stmts.saveDevice.BindText(2, name)
		s.stmts.saveDevice.BindInt64(3, at)
		if err := exec(s.stmts.saveDevice); err != nil {
			return err
		}
	}
	return nil
}
