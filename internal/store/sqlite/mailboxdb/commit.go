package mailboxdb

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/await"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// ref identifies a copy in memory.
type ref struct {
	r   *recipient
	pos int64
}

// touch holds a recipient's counters from before the open transaction.
type touch struct {
	r       *recipient
	lastSeq uint64
	lastPos int64
	active  int32
}

// transaction records what the open transaction has changed in memory. A commit makes the changes visible to readers; a rollback undoes
// them.
type transaction struct {
	firstPos int64
	touched  []touch
	marked   []ref
	released []int64 // contents that lost a copy
	shared   []int64 // new contents that several copies share
	unneeded []int64 // contents that go
	settled  []settled
	encoded  []byte // of settled
	newOnes  []*recipient
	newApps  []*app
	boxes    []*box   // inboxes that may have changed
	undo     []func() // undo functions of changes too rare for a list of their own
	batch    mailbox.Batch

	pending, scheduled, appends int64
	looked, full                bool // full: the disk is full; looked: that was checked, once per transaction
}

func (t *transaction) reset(pos int64) {
	clear(t.touched)
	clear(t.marked)
	clear(t.undo)
	clear(t.newOnes)
	clear(t.boxes)
	*t = transaction{
		firstPos: pos + 1, touched: t.touched[:0], marked: t.marked[:0], released: t.released[:0], shared: t.shared[:0],
		unneeded: t.unneeded[:0], settled: t.settled[:0], encoded: t.encoded,
		newOnes: t.newOnes[:0], newApps: t.newApps[:0], boxes: t.boxes[:0], undo: t.undo[:0],
		batch: mailbox.Batch{Stored: t.batch.Stored[:0], Due: t.batch.Due[:0], Settled: t.batch.Settled[:0], Inboxes: t.batch.Inboxes[:0]},
	}
}

// touch saves r's state before its first change in this transaction.
func (s *Store) touch(r *recipient) {
	if !r.touched {
		r.touched = true
		s.tx.touched = append(s.tx.touched, touch{r: r, lastSeq: r.lastSeq, lastPos: r.lastPos, active: r.active})
	}
}

// tally counts positions and unsettled copies, including the open transaction's changes.
func (s *Store) tally(*sqlite.Conn) (sqlitedb.Tally, error) {
	return sqlitedb.Tally{Stored: s.pos, Open: s.pending.Load() + s.waiting.Load() + s.tx.pending + s.tx.scheduled}, nil
}

// carryOut submits ops of an app and waits until they are committed. The caller's goroutine commits a lone op and informs the observer,
// unless another goroutine does so already.
func carryOut[O interface {
	sqlitedb.Op
	await.Waiter
}](ctx context.Context, s *Store, app string, ops []O) error {
	return await.All(ctx, ops, func(op O) {
		if len(ops) > 1 {
			s.db.Submit(app, op)
			return
		}
		if s.db.SubmitHere(app, op) {
			s.tellHere()
		}
	})
}

// committed makes a commit's changes visible to readers, and lets the observer be informed: by the caller's goroutine, if that has
// committed.
func (s *Store) committed(ops []sqlitedb.Op, here bool) {
	t := &s.tx
	s.mu.Lock()
	for i := range t.touched {
		r := t.touched[i].r
		r.touched, r.shown = false, r.lastSeq
		r.drop(func(e *entry) bool {
			e.clear(flagStaged)
			return e.is(flagLeaving)
		})
	}
	for _, m := range t.marked {
		if e := m.r.find(m.pos); e != nil {
			e.set(flagDelivered)
		}
	}
	s.showEnded()
	s.shownPos = s.pos
	seal := len(s.tails) > 1
	s.mu.Unlock()
	if seal {
		select {
		case s.seals <- struct{}{}:
		default:
		}
	}
	for i := range t.touched {
		s.counters.note(t.touched[i].r, t.touched[i].lastSeq)
		s.counters.idle(t.touched[i].r)
	}
	for _, pos := range t.released {
		if s.contents[pos] == 0 {
			delete(s.contents, pos)
		}
	}
	for _, b := range t.boxes {
		b.listed = false
	}
	s.pending.Add(t.pending)
	s.waiting.Add(t.scheduled)
	s.appends.Add(uint64(t.appends))
	c := s.spare.Get().(*committed)
	c.batch, t.batch = t.batch, c.batch
	c.ops = append(c.ops, ops...)
	s.untold <- c
	if !here {
		s.wakeTeller()
	}
	t.reset(s.pos)
	s.afterCommit()
}

// rollBack undoes a failed transaction's changes in memory. Its positions are not assigned again.
func (s *Store) rollBack() {
	t := &s.tx
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range t.touched {
		was := &t.touched[i]
		r := was.r
		r.touched, r.lastSeq, r.lastPos, r.active = false, was.lastSeq, was.lastPos, was.active
		r.drop(func(e *entry) bool {
			e.clear(flagLeaving)
			return e.is(flagStaged)
		})
	}
	for _, tail := range s.tails {
		tail.cut(t.firstPos)
	}
	for _, pos := range t.released {
		s.contents[pos]++
	}
	for _, pos := range t.shared {
		delete(s.contents, pos)
	}
	for _, r := range t.newOnes {
		r.gone = true
		r.app.drop(r)
	}
	for _, a := range t.newApps {
		delete(s.apps, a.name)
	}
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
	s.forgetBoxes()
	s.folding = s.folded
	s.packRead.forget()
	t.reset(s.pos)
}

// failed handles the ops of a transaction that was rolled back. If the disk is full it refuses publishes and retries all other ops once, in
// the space that the ballast and the log free.
func (s *Store) failed(ops []sqlitedb.Op, err error) (again []sqlitedb.Op) {
	s.rollBack()
	var fatal *sqlitedb.FatalError
	full := sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull
	if full && !errors.As(err, &fatal) {
		if s.space.GiveUp() {
			s.cfg.Log.Warn("the disk is full; the ballast was given up", "error", err)
		}
		s.db.Reclaim()
		err = fmt.Errorf("%w: %w", mailbox.ErrNoSpace, err)
		for _, op := range ops {
			if r, ok := op.(retrier); ok && r.retry() {
				again = append(again, op)
			} else {
				op.Done(err)
			}
		}
		return again
	}
	for _, op := range ops {
		op.Done(err)
	}
	return nil
}

// retrier is an op that may be retried once after the disk was full.
type retrier interface{ retry() bool }

// onceMore makes an op a retrier.
type onceMore struct{ tried bool }

func (o *onceMore) retry() bool {
	first := !o.tried
	o.tried = true
	return first
}
