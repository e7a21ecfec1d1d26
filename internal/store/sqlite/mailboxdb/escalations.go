package mailboxdb

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/millis"
)

var _ mailbox.Escalator = (*Store)(nil)

// waitingStep is the next step of a copy, with its due time.
type waitingStep struct {
	at      int64
	pos     int64
	r       *recipient
	hurried bool // it is due before the time stored in its row
}

// stepQueue orders steps by due time. It may hold a copy twice, or a settled copy: the rows decide.
type stepQueue []waitingStep

func (q stepQueue) Len() int { return len(q) }

func (q stepQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].pos < q[j].pos
}
func (q stepQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *stepQueue) Push(x any)   { *q = append(*q, x.(waitingStep)) }

func (q *stepQueue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = waitingStep{}
	*q = (*q)[:last]
	return w
}

func (q *stepQueue) add(w waitingStep) { heap.Push(q, w) }

// escalations holds the waiting steps. Only the goroutine that commits uses it.
type escalations struct {
	queue stepQueue
	given map[int64]waitingStep // the steps that StepsDue has returned last, until HandedOver names them
}

// armed adds the escalation of a copy that is being stored.
func (s *Store) armed(r *recipient, pos int64, n *notification.Notification) error {
	at := millis.Of(n.Due().Add(n.Steps[0].After))
	s.steps.queue.add(waitingStep{at: at, pos: pos, r: r})
	return s.saveStep(pos, 0, at)
}

func (s *Store) saveStep(pos int64, step int, at int64) error {
	st := s.stmts.saveStep
	st.BindInt64(1, pos)
	st.BindInt64(2, int64(step))
	st.BindInt64(3, at)
	return exec(st)
}

func (s *Store) savePlan(first int64, steps []notification.Step) error {
	s.stmts.savePlan.BindInt64(1, first)
	s.stmts.savePlan.BindBytes(2, content.EncodeSteps(steps))
	return exec(s.stmts.savePlan)
}

func (s *Store) deleteStep(pos int64) error {
	s.stmts.deleteStep.BindInt64(1, pos)
	return exec(s.stmts.deleteStep)
}

// nextStep reads a copy's next step; ok is false if there is none.
func nextStep(stmt *sqlite.Stmt, pos int64) (step int, due int64, ok bool, err error) {
	stmt.BindInt64(1, pos)
	err = each(stmt, func(st *sqlite.Stmt) error {
		step, due, ok = st.ColumnInt(0), st.ColumnInt64(1), true
		return nil
	})
	return step, due, ok, err
}

func readPlan(stmt *sqlite.Stmt, contentPos int64) (steps []notification.Step, err error) {
	stmt.BindInt64(1, contentPos)
	err = each(stmt, func(st *sqlite.Stmt) (err error) {
		steps, err = content.DecodeSteps(blob(st, 0))
		return err
	})
	return steps, err
}

const (
	selectStep = "SELECT step, due_at FROM escalation WHERE pos = ?1"
	selectPlan = "SELECT steps FROM plan WHERE pos = ?1"
)

// StepsDue implements mailbox.Escalator.
func (s *Store) StepsDue(ctx context.Context, apps []string, now time.Time, limit int) ([]mailbox.StepDue, time.Time, error) {
	op := &stepsDueOp{waitOp: newWaitOp(), s: s, apps: apps, now: millis.Of(now), limit: limit}
	if err := s.run(ctx, op, op.done, false); err != nil {
		return nil, time.Time{}, storeError("read steps that are due", err)
	}
	return op.due, fromMS(op.next), nil
}

// stepsDueOp reads steps in the writer's turn, so that it sees all earlier settles.
type stepsDueOp struct {
	waitOp
	s     *Store
	apps  []string // nil: all
	now   int64
	limit int
	due   []mailbox.StepDue
	next  int64
}

func (op *stepsDueOp) Apply(*sqlite.Conn) error {
	s := op.s
	q := &s.steps.queue
	var taken []waitingStep
	s.tx.undo = append(s.tx.undo, func() {
		for _, w := range taken {
			q.add(w)
		}
	})
	for _, w := range s.steps.given { // nobody was told of them
		q.add(w)
	}
	s.steps.given = make(map[int64]waitingStep)
	op.due = nil
	var others []waitingStep
	for len(*q) > 0 && (*q)[0].at <= op.now && len(op.due) < op.limit {
		w := heap.Pop(q).(waitingStep)
		if op.apps != nil && !slices.Contains(op.apps, w.r.app.name) {
			others = append(others, w)
			continue
		}
		taken = append(taken, w)
		if _, twice := s.steps.given[w.pos]; twice {
			continue
		}
		d, ok, err := s.stepDue(w, op.now)
		if err != nil {
			return fmt.Errorf("step of the notification at %d: %w", w.pos, err)
		}
		if ok {
			s.steps.given[w.pos] = w
			op.due = append(op.due, d)
		}
	}
	for _, w := range others {
		q.add(w)
	}
	op.next = 0
	if len(*q) > 0 {
		op.next = max((*q)[0].at, 1)
	}
	return nil
}

// stepDue reads the next step of a copy. ok is false if the copy is scheduled, settled or expired, or if its next step is not due; hurried
// makes only a first step due.
func (s *Store) stepDue(w waitingStep, now int64) (d mailbox.StepDue, ok bool, err error) {
	e := w.r.find(w.pos)
	if e == nil || e.is(flagScheduled) || e.expires() <= now {
		return d, false, nil
	}
	step, due, ok, err := nextStep(s.stmts.readStep, w.pos)
	if err != nil || !ok || due == 0 || due > now && (!w.hurried || step > 0) {
		return d, false, err
	}
	row, ok, err := s.row(w.pos)
	if err != nil || !ok {
		return d, false, err
	}
	steps, err := readPlan(s.stmts.readPlan, e.contentPos())
	if err != nil || step >= len(steps) {
		return d, false, err
	}
	return mailbox.StepDue{
		App: w.r.app.name, Recipient: w.r.name, ID: row.id, Pos: w.pos, Step: step, Channel: steps[step].Channel,
		StepOptions: steps[step].StepOptions, Due: fromMS(min(due, w.at)), ExpiresAt: fromMS(e.expires()),
	}, true, nil
}

// HandedOver implements mailbox.Escalator.
func (s *Store) HandedOver(ctx context.Context, done []mailbox.StepDone, now time.Time) error {
	op := &handedOverOp{waitOp: newWaitOp(), s: s, told: done, now: millis.Of(now)}
	return storeError("note that steps were handed over", s.run(ctx, op, op.done, false))
}

// handedOverOp schedules the steps after those that were handed over.
type handedOverOp struct {
	waitOp
	s    *Store
	told []mailbox.StepDone
	now  int64
}

func (op *handedOverOp) Size() (rows, bytes int) { return len(op.told), 64 * len(op.told) }

func (op *handedOverOp) Apply(*sqlite.Conn) error {
	s := op.s
	for i := range op.told {
		d := &op.told[i]
		r, err := s.known(d.App, d.Recipient)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		if e := r.find(d.Pos); e != nil {
			if err := s.nextAfter(r, e, d, op.now); err != nil {
				return fmt.Errorf("step %d of the notification at %d: %w", d.Step, d.Pos, err)
			}
		}
		if w, ok := s.steps.given[d.Pos]; ok {
			delete(s.steps.given, d.Pos)
			s.tx.undo = append(s.tx.undo, func() { s.steps.given[w.pos] = w })
		}
	}
	return nil
}

func (s *Store) nextAfter(r *recipient, e *entry, d *mailbox.StepDone, now int64) error {
	step, due, ok, err := nextStep(s.stmts.readStep, e.pos)
	if err != nil || !ok || step != d.Step {
		return err
	}
	if !d.Until.IsZero() {
		at := millis.Of(d.Until)
		s.steps.queue.add(waitingStep{at: at, pos: e.pos, r: r})
		return s.saveStep(e.pos, step, at)
	}
	steps, err := readPlan(s.stmts.readPlan, e.contentPos())
	if err != nil {
		return err
	}
	if step++; step >= len(steps) {
		return s.saveStep(e.pos, step, 0)
	}
	at := now
	if !d.Skipped {
		row, ok, err := s.row(e.pos)
		if err != nil || !ok {
			return err
		}
		after := steps[step].After.Milliseconds()
		at = max(max(row.created, row.sendAt)+after, due+after-steps[step-1].After.Milliseconds())
	}
	s.steps.queue.add(waitingStep{at: at, pos: e.pos, r: r})
	return s.saveStep(e.pos, step, at)
}

// Hurry implements mailbox.Escalator.
func (s *Store) Hurry(refs []mailbox.Ref) {
	s.db.Submit("", &hurryOp{s: s, refs: refs, now: s.now()})
}

// hurryOp queues first steps once more, as due now.
type hurryOp struct {
	s    *Store
	refs []mailbox.Ref
	now  int64
}

func (op *hurryOp) Size() (rows, bytes int) { return 1, 0 }
func (op *hurryOp) Done(error)              {}

func (op *hurryOp) Apply(*sqlite.Conn) error {
	for _, ref := range op.refs {
		if r := op.s.inMemory(ref.App, ref.Recipient); r != nil && r.find(ref.Pos) != nil {
			op.s.steps.queue.add(waitingStep{at: op.now, pos: ref.Pos, r: r, hurried: true})
		}
	}
	return nil
}

// StepsOf implements mailbox.Escalator.
func (s *Store) StepsOf(ctx context.Context, ref mailbox.Ref) (steps []notification.Step, next int, err error) {
	err = s.read(ctx, ref.App, func(c *sqlite.Conn) error {
		steps, next = nil, 0
		copies, err := s.copiesOn(c)
		if err != nil {
			return err
		}
		plan, err := c.Prepare(selectPlan)
		if err != nil {
			return err
		}
		step, err := c.Prepare(selectStep)
		if err != nil {
			return err
		}
		row, ok, err := copies.read(ref.Pos)
		if err != nil || !ok || !row.open {
			return err
		}
		if info, known, err := s.readRecipient(c, ref.App, ref.Recipient); err != nil || !known || info.key != row.recipient {
			return err
		}
		if steps, err = readPlan(plan, row.contentPos()); err != nil {
			return err
		}
		var due int64
		if next, due, _, err = nextStep(step, ref.Pos); err != nil {
			return err
		}
		if next < len(steps) {
			notification.PutOff(steps, next, time.Duration(due-max(row.created, row.sendAt))*time.Millisecond)
		}
		return nil
	})
	if err != nil {
		return nil, 0, storeError("read steps of "+ref.Recipient, err)
	}
	return steps, next, nil
}

// loadSteps loads the waiting steps before the copies. Both are read in the order of positions, so neither needs lookups in the other.
func (l *loader) loadSteps(ctx context.Context) error {
	q, open := &l.s.steps.queue, l.open
	err := l.query(ctx, "SELECT pos, due_at FROM escalation ORDER BY pos", nil, func(st *sqlite.Stmt) error {
		pos, at := st.ColumnInt64(0), st.ColumnInt64(1)
		for len(open) > 0 && open[0].e.pos < pos {
			open = open[1:]
		}
		if len(open) == 0 || open[0].e.pos != pos {
			return nil // its copy was settled
		}
		open[0].e.set(flagSteps)
		if r := l.byKey[open[0].recipient]; r != nil && at > 0 { // else it is being erased
			*q = append(*q, waitingStep{at: at, pos: pos, r: r})
		}
		return nil
	})
	heap.Init(q)
	return err
}
