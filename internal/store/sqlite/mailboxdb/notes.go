package mailboxdb

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/notes"
)

// maxRetried limits the acks that wait for space on a full disk; further ones are lost, so that their copies are redelivered and
// acknowledged again.
const maxRetried = 1 << 16

// noting writes marks and sightings, and retries settles that failed on a full disk.
type noting struct {
	notes.Notes
	s        *Store
	mu       sync.Mutex
	settles  []*mailbox.Settle
	stopping chan struct{}
	wg       sync.WaitGroup
}

func (n *noting) start(s *Store) {
	n.s, n.stopping = s, make(chan struct{})
	n.wg.Go(n.run)
}

func (n *noting) close() {
	close(n.stopping)
	n.wg.Wait()
	n.submit(n.TakeAll())
}

func (n *noting) run() {
	tick := time.NewTicker(notes.Every)
	defer tick.Stop()
	for {
		select {
		case <-n.stopping:
			return
		case <-tick.C:
		}
		n.write()
		n.retrySettles()
		n.s.lookInside()
		if err := n.s.space.Restore(); err != nil {
			n.s.cfg.Log.Warn("ballast could not be made", "error", err)
		}
	}
}

// lookInside records how much of the file can be reused.
func (s *Store) lookInside() {
	free, err := s.db.FreeInside(context.Background())
	if err != nil {
		s.cfg.Log.Warn("free pages could not be counted", "error", err)
		return
	}
	s.freeInside.Store(free)
}

// Mark implements mailbox.Store.
func (s *Store) Mark(batch []mailbox.Mark) { s.notes.Mark(batch, s.now()) }

// Seen implements mailbox.Store.
func (s *Store) Seen(batch []mailbox.Seen) { s.notes.Seen(batch) }

// settleAgain stores settles without a waiting caller that failed because the disk was full, for a retry.
func (n *noting) settleAgain(batch []*mailbox.Settle, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.settles)+len(batch) <= maxRetried {
		n.settles = append(n.settles, batch...)
		return
	}
	n.s.cfg.Log.Warn("acknowledgements were lost; they will come again", "count", len(batch), "error", err)
}

func (n *noting) retrySettles() {
	n.mu.Lock()
	batch := n.settles
	n.settles = nil
	n.mu.Unlock()
	if len(batch) > 0 {
		n.s.SettleLater(batch)
	}
}

// write submits the notes that have waited long enough.
func (n *noting) write() { n.submit(n.Take(n.s.now())) }

func (n *noting) submit(marks []notes.Mark, seen []notes.Sighting) {
	slices.SortFunc(marks, func(a, b notes.Mark) int { return cmp.Compare(a.Pos, b.Pos) }) // a pack's after each other
	for part := range slices.Chunk(marks, notes.Slice) {
		n.s.db.SubmitBulk(&noteOp{s: n.s, marks: part})
	}
	for part := range slices.Chunk(seen, notes.Slice) {
		n.s.db.SubmitBulk(&noteOp{s: n.s, seen: part})
	}
}

// noteOp writes marks and sightings. They are lost if that fails.
type noteOp struct {
	s     *Store
	marks []notes.Mark
	seen  []notes.Sighting
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
	leave := leaving{s: op.s}
	for _, m := range op.marks {
		r, err := op.s.known(m.App, m.Recipient)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		if e := r.find(m.Pos); e != nil {
			err = op.s.recordMark(r, e, m, &leave)
		} else {
			err = op.s.lateTried(r, &m)
		}
		if err != nil {
			return err
		}
	}
	if err := leave.save(); err != nil {
		return err
	}
	for _, n := range op.seen {
		if err := op.s.recordSeen(&n); err != nil {
			return err
		}
	}
	return nil
}

// recordMark writes a delivery of a pending copy. A packed copy gets a row for it.
func (s *Store) recordMark(r *recipient, e *entry, m notes.Mark, leave *leaving) error {
	if err := s.saveTried(e.pos, m.Tried(), false); err != nil || e.is(flagScheduled) || m.DeliveredAt == 0 && m.Attempts == 0 {
		return err
	}
	st := s.stmts.markNote
	status := notification.Delivered
	if m.DeliveredAt == 0 {
		status = e.status()
	}
	st.BindInt64(1, e.pos)
	st.BindInt64(2, m.DeliveredAt)
	st.BindInt64(3, int64(m.Attempts))
	st.BindInt64(4, int64(status))
	noted := func(r *row) {
		r.status, r.attempts = status, max(r.attempts, m.Attempts)
		if m.DeliveredAt > 0 {
			r.delivered = m.DeliveredAt
		}
	}
	if err := leave.change(st, e.pos, noted, func() error { return nil }); err != nil { // a failure here is no error for the caller: notes are best effort
		return err
	}
	if m.DeliveredAt > 0 && !e.is(flagDelivered) {
		s.tx.marked = append(s.tx.marked, ref{r, e.pos})
	}
	return nil
}

// recordMarkAlone is recordMark for a single mark.
func (s *Store) recordMarkAlone(r *recipient, e *entry, m notes.Mark) error {
	leave := leaving{s: s}
	if err := s.recordMark(r, e, m, &leave); err != nil {
		return err
	}
	return leave.save()
}

// seenAt writes when a recipient was last seen and returns its key. (One upsert that returns the key would do, but SQLite keeps a journal
// for each such statement, which takes longer than a lookup before.)
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

// recordSeen writes a sighting. It does not load the recipient into memory: most recipients that connect have nothing pending.
func (s *Store) recordSeen(n *notes.Sighting) error {
	a, err := s.internApp(n.App)
	if err != nil {
		return err
	}
	key, err := s.seenAt(a.key, n.Recipient, n.At)
	if err != nil {
		return err
	}
	for name, at := range n.Devices {
		s.stmts.saveDevice.BindInt64(1, key)
		s.stmts.saveDevice.BindText(2, name)
		s.stmts.saveDevice.BindInt64(3, at)
		if err := exec(s.stmts.saveDevice); err != nil {
			return err
		}
	}
	return nil
}
