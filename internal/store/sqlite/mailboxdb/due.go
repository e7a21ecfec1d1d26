package mailboxdb

import (
	"container/heap"
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

const (
	// dueSlice is how many copies one call of Due or Expire handles.
	dueSlice = 500
	// mostExpired is how many copies one call of Expire handles at most, while many are stored.
	mostExpired = 16 * dueSlice
)

// waitOp is an op whose caller waits for it and cannot cancel it.
type waitOp struct {
	onceMore
	done chan error
}

func (o *waitOp) Size() (rows, bytes int) { return dueSlice, 64 * dueSlice }
func (o *waitOp) Done(err error)          { o.done <- err }

func newWaitOp() waitOp { return waitOp{done: make(chan error, 1)} }

// run submits an op and waits for it. An op that was submitted is not abandoned, so ctx is only checked before.
func (s *Store) run(ctx context.Context, op sqlitedb.Op, done chan error, bulk bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if bulk {
		s.db.SubmitBulk(op)
	} else {
		s.db.Submit("", op)
	}
	return <-done
}

// Due implements mailbox.Store.
func (s *Store) Due(ctx context.Context, now time.Time) (time.Time, error) {
	op := &dueOp{waitOp: newWaitOp(), s: s, now: millis.Of(now)}
	err := s.run(ctx, op, op.done, false)
	return fromMS(op.next), storeError("deliver scheduled notifications", err)
}

// dueOp makes scheduled copies deliverable.
type dueOp struct {
	waitOp
	s    *Store
	now  int64
	next int64
}

func (op *dueOp) Apply(*sqlite.Conn) error {
	s := op.s
	if len(s.due) > 2*int(s.waiting.Load())+1024 {
		s.due.compact()
	}
	var taken []scheduled
	s.tx.undo = append(s.tx.undo, func() {
		for _, w := range taken {
			s.due.add(w)
		}
	})
	rd := contents{stmt: s.stmts.readContent}
	for n := 0; n < dueSlice && len(s.due) > 0 && s.due[0].at <= op.now; {
		w := s.due.take()
		taken = append(taken, w)
		if e := w.r.find(w.pos); e != nil && e.is(flagScheduled) {
			n++
			if err := s.makeDue(w.r, e, &rd, op.now); err != nil {
				return err
			}
		}
	}
	op.next = 0
	if len(s.due) > 0 {
		op.next = s.due[0].at
	}
	return nil
}

// makeDue assigns a scheduled copy its seq, unless it has expired meanwhile.
func (s *Store) makeDue(r *recipient, e *entry, rd *contents, now int64) error {
	row, ok, err := s.row(e.pos)
	if err != nil || !ok {
		return err
	}
	if e.expires() <= now {
		return s.settleEntry(r, e, ending{id: row.id, as: notification.Expired, at: now})
	}
	item, ok, err := rd.item(&row, r.app.name, r.name)
	if err != nil || !ok {
		return err
	}
	s.touch(r)
	r.lastSeq++
	item.Seq = r.lastSeq
	s.stmts.dueNote.BindInt64(1, e.pos)
	s.stmts.dueNote.BindInt64(2, int64(r.lastSeq))
	if err := exec(s.stmts.dueNote); err != nil {
		return err
	}
	// Rows with lower seqs may follow this row, so after a crash the newest rows would not restore the counter.
	if err := s.saveSeq(r); err != nil {
		return err
	}
	moved := *e
	moved.clear(flagScheduled)
	moved.set(flagStaged)
	s.mu.Lock()
	e.set(flagLeaving)
	r.list = append(r.list, moved)
	s.mu.Unlock()
	s.tx.scheduled--
	s.tx.pending++
	if item.Escalates = moved.is(flagSteps); item.Escalates {
		_, at, _, err := nextStep(s.stmts.readStep, moved.pos)
		if err != nil {
			return err
		}
		s.steps.queue.add(waitingStep{at: at, pos: moved.pos, r: r})
	}
	s.tx.batch.Due = append(s.tx.batch.Due, item)
	if item.N.Content.Inbox != nil {
		return s.keepDue(r, moved.pos, item.N, now)
	}
	return nil
}

// Expire implements mailbox.Store.
func (s *Store) Expire(ctx context.Context, now time.Time) (time.Time, error) {
	op := &expireOp{waitOp: newWaitOp(), s: s, now: millis.Of(now)}
	err := s.run(ctx, op, op.done, true)
	return fromMS(op.next), storeError("expire notifications", err)
}

// expireOp ends overdue copies: a slice, or as many as were stored since the last call, so that copies do not end more slowly than they come however
// fast that is.
type expireOp struct {
	waitOp
	s    *Store
	now  int64
	next int64
}

func (op *expireOp) Apply(*sqlite.Conn) error {
	s := op.s
	left := min(max(dueSlice, s.arrived), mostExpired)
	s.arrived = 0
	for left > 0 && len(s.expiries) > 0 && s.expiries[0].wakes <= op.now {
		r := s.expiries[0]
		n, err := s.expireOf(r, op.now, left)
		left -= n
		if err != nil {
			return err
		}
	}
	op.next = 0
	if len(s.expiries) > 0 {
		op.next = max(s.expiries[0].wakes, 1)
	}
	return nil
}

// expireOf ends up to limit expired copies of r and schedules its next check.
func (s *Store) expireOf(r *recipient, now int64, limit int) (n int, err error) {
	next := int64(0)
	for i := range r.list {
		e := &r.list[i]
		if e.is(flagLeaving) {
			continue
		}
		if e.expires() > now || n == limit {
			if next == 0 || e.expires() < next {
				next = e.expires()
			}
			continue
		}
		if err := s.expireEntry(r, e, now); err != nil {
			return n, err
		}
		n++
	}
	// If the transaction fails, the copies stay in the list, so the queue needs them again.
	if n > 0 {
		s.tx.undo = append(s.tx.undo, func() { s.expiries.wakeBy(r, now) })
	}
	if next == 0 {
		s.expiries.remove(r)
		return n, nil
	}
	r.wakes = next
	heap.Fix(&s.expiries, r.slot)
	return n, nil
}

func (s *Store) expireEntry(r *recipient, e *entry, now int64) error {
	row, ok, err := s.row(e.pos)
	if err != nil || !ok {
		return err
	}
	mark := s.notes.TakeMark(e.pos)
	return s.settleEntry(r, e, ending{id: row.id, as: notification.Expired, at: now, deliveredAt: mark.DeliveredAt, attempts: mark.Attempts, mark: mark})
}

// lookAgain is long because only this process can make a copy due earlier, and then it wakes upkeep.
const lookAgain = time.Hour

// LookAgain implements mailbox.Store: no other process writes to the file.
func (s *Store) LookAgain() time.Duration { return lookAgain }

// Ready implements mailbox.Store.
func (s *Store) Ready(ctx context.Context) error {
	if s.space.Full() {
		return mailbox.ErrNoSpace
	}
	// An empty commit does not touch the disk, so it only shows that the writer responds.
	return storeError("commit", s.db.Do(ctx, func(*sqlite.Conn) error { return nil }))
}
