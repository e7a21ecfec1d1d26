package mailboxdb

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

const (
	// maxRows and maxBytes limit a commit; the last op may exceed them.
	maxRows  = 1000
	maxBytes = 1 << 20
	// lazyAfter is the wait of an acknowledgement for a publish with which it can share a commit. Replies wait for replyAfter, since the one
	// who asked waits for them.
	lazyAfter  = 25 * time.Millisecond
	replyAfter = 5 * time.Millisecond
	// sliceAfter is the wait of upkeep for a moment without publishes.
	sliceAfter = 20 * time.Millisecond
	// tries limits the attempts of a commit that conflicts with others.
	tries = 5
	// maxAway limits the acknowledgements that wait in a lane while the database is away, in bytes. Further ones are dropped, and their
	// notifications are delivered again.
	maxAway   = 16 << 20
	awayPause = time.Second
	// awayAgain is the time for which a lane gathers operations before another try while the database is away. Each try is a connection,
	// for which a starting database creates a process in the middle of its recovery.
	awayAgain = 50 * time.Millisecond
)

// op is an operation that waits for a lane.
type op interface {
	size() (rows, bytes int)
	each(do func(mailbox.Address)) // recipient
	Take() bool                    // whether it is still wanted
	Finish(err error)              // called after the observer was informed, or with the operation's error
}

// outcome is the result of a commit.
type outcome struct {
	tell               mailbox.Batch
	pending, scheduled int64 // how many more wait
	trace              commitTrace
}

// lane commits the operations on the mailboxes of its recipients, in groups, one after the other. A recipient is always on
// the same lane, so the observer learns of its changes in the order of the commits.
type lane struct {
	s      *Store
	n      int
	keys   map[mailbox.Address]int64 // keys of recently used recipients
	room   map[int64]int64           // for recipients with many copies: the number of copies up to which their mailbox cannot be full
	past   string                    // timeline of the database that these keys are from
	did    outcome                   // results of the commit under way, and acknowledgements that it could not settle
	missed []*mailbox.Settle
	passed []op // that it left for later
	left   []op // that need a commit of two round trips

	parking   parking
	parked    atomic.Int64 // operations in parking
	lastTrace int64
	unsure    *unsure // nil: the outcome of each commit is known
	pause     bool    // the database was away just now

	mu     sync.Mutex
	queue  turns
	slices []*sliceOp
	lazy   []op // nobody waits for these
	lazyAt time.Time
	held   int // bytes of lazy
	away   bool
	ended  bool
	wake   chan struct{}
}

func newLane(s *Store, n int) *lane {
	return &lane{s: s, n: n, keys: make(map[mailbox.Address]int64), room: make(map[int64]int64), wake: make(chan struct{}, 1), lastTrace: firstTrace()}
}

func (s *Store) laneOf(app, recipient string) int { return shardOf(app, recipient) % s.cfg.Lanes }

func (l *lane) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// submit queues an op of an app for which a caller waits.
func (l *lane) submit(app string, o op) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		o.Finish(mailbox.ErrClosed)
		return
	}
	l.queue.add(app, o)
	l.mu.Unlock()
	l.nudge()
}

// submitLazy queues an op that waits for the next commit of others. While the database is away, a limited number of such ops is retained.
func (l *lane) submitLazy(o *settleOp) {
	_, bytes := o.size()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.away && l.held+bytes > maxAway/len(l.s.lanes) {
		return
	}
	if at := time.Now().Add(o.patience()); len(l.lazy) == 0 || o.replies() && !l.away && at.Before(l.lazyAt) {
		l.lazyAt = at
		l.nudge()
	}
	l.lazy = append(l.lazy, o)
	l.held += bytes
}

// close ends the lane once it has done the queued operations.
func (l *lane) close() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.nudge()
}

func (l *lane) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.ops + len(l.lazy)
}

func (l *lane) run() {
	for {
		if l.pause {
			l.pause = false
			time.Sleep(awayAgain) // operations that come meanwhile share the try, and its error
		}
		l.giveUp()
		l.parked.Store(int64(len(l.parking.ops)))
		ops, slice, wait, ended := l.next()
		if slice == nil {
			ops = l.parking.take(ops)
		}
		if len(l.parking.ops) > 0 && (wait <= 0 || wait > parkPause) {
			wait = parkPause
		}
		if len(ops) == 0 && slice == nil && l.unsure != nil {
			err := l.makeSure()
			if err == nil {
				continue
			}
			if ended {
				l.s.cfg.Log.Warn("what became of the last commit is not known: if it is there, nobody was told of it", "error", err)
			}
			wait = awayPause
		}
		switch {
		case len(ops) > 0:
			l.commit(ops)
		case slice != nil:
			l.slice(slice)
		case ended && len(l.parking.ops) == 0:
			return
		case wait > 0:
			timer := time.NewTimer(wait)
			select {
			case <-l.wake:
			case <-timer.C:
			}
			timer.Stop()
		default:
			<-l.wake
		}
	}
}

// next takes the operations for the next commit. It takes upkeep if no operation waits, or if upkeep itself has waited long enough.
func (l *lane) next() (ops []op, slice *sliceOp, wait time.Duration, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows, bytes := 0, 0
	add := func(o op) bool {
		r, b := o.size()
		if len(ops) > 0 && (rows+r > maxRows || bytes+b > maxBytes) {
			return false
		}
		rows, bytes = rows+r, bytes+b
		ops = append(ops, o)
		return true
	}
	if len(l.slices) > 0 && (l.queue.ops == 0 || time.Since(l.slices[0].since) > sliceAfter) {
		slice = l.slices[0]
		l.slices = l.slices[1:]
		return nil, slice, 0, false
	}
	for l.queue.ops > 0 {
		if o := l.queue.first(); o.Take() && !add(o) {
			break
		}
		l.queue.pop()
	}
	wait = time.Until(l.lazyAt)
	if len(l.lazy) > 0 && (len(ops) > 0 || wait <= 0 || l.ended) {
		n := 0
		for n < len(l.lazy) && add(l.lazy[n]) {
			_, b := l.lazy[n].size()
			l.held -= b
			l.lazy[n] = nil
			n++
		}
		if l.lazy = l.lazy[n:]; len(l.lazy) == 0 {
			l.lazy = nil
		}
	}
	if len(l.lazy) == 0 {
		wait = 0
	}
	return ops, nil, wait, l.ended
}

// commit executes ops in one transaction, informs the observer and answers the waiting callers. If one op is at fault, each op is executed
// alone, so that the others do not fail with it.
func (l *lane) commit(ops []op) {
	if err := l.makeSure(); err != nil {
		l.failed(ops, err)
		return
	}
	ctx, cancel := pgdb.Within(context.Background(), pgdb.AnswerWithin)
	err := l.try(ctx, ops)
	cancel()
	switch {
	case err == nil:
		l.s.full.Store(false)
		l.setAway(false)
		l.told()
		ops = l.parking.park(ops, l.passed)
		left := l.left
		missed := l.finishMissed()
		for _, o := range ops {
			if q, ok := o.(*settleOp); ok && missed != nil {
				if q.Waited() {
					q.Finish(missed)
				}
			} else if !slices.Contains(left, o) {
				o.Finish(nil)
			}
		}
		if len(left) > 0 {
			l.commit(left)
		}
	case len(ops) > 1 && rejected(err):
		for _, o := range ops {
			l.commit([]op{o})
		}
	case pgdb.TableLocked(err): // all operations need it
		l.waitForTable(ops, err)
	case len(ops) > 1 && pgdb.Locked(err): // the lock is not on a recipient's row: ops on other rows can continue
		l.commit(ops[:len(ops)/2])
		l.commit(ops[len(ops)/2:])
	default:
		if l.unsure != nil {
			ops = l.unsure.keep(ops)
			for _, q := range l.unsure.lazy { // settling twice does no harm, and this node may be unsure for long
				if divert := l.s.divert.Load(); divert != nil {
					(*divert)(cloneSettles(q.batch))
				}
			}
		}
		l.failed(ops, err)
	}
}

// rejected reports whether the database refused a value.
func rejected(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code[:2] == "22"
}

// finishMissed settles, under the recipients' locks, the acknowledgements that the quick statement could not settle.
func (l *lane) finishMissed() error {
	if len(l.missed) == 0 {
		return nil
	}
	slow := &settleOp{batch: l.missed, slow: true}
	l.missed = nil
	ctx, cancel := pgdb.Within(context.Background(), pgdb.AnswerWithin)
	defer cancel()
	err := l.try(ctx, []op{slow})
	if err == nil && len(l.passed) > 0 {
		err = errStuck
	}
	if err != nil {
		later := &settleOp{lane: l, batch: cloneSettles(slow.batch), slow: true}
		switch {
		case l.unsure != nil:
			l.unsure.lazy = []*settleOp{later}
		case pgdb.Locked(err), errors.Is(err, errStuck):
			l.again(later)
		}
		return err
	}
	l.told()
	return nil
}

// told passes the results of the commit to the observer.
func (l *lane) told() {
	l.s.commits.Add(1)
	l.s.appends.Add(uint64(len(l.did.tell.Stored)))
	l.s.counts.changed(&l.did)
	if len(l.did.tell.Inboxes) > 0 {
		l.s.used.Store(true)
	}
	if obs, tell := l.s.obs.Load(), &l.did.tell; obs != nil && tell.Size() > 0 {
		tellInParts(*obs, tell, l.s.cfg.Tellers)
	}
}

func (l *lane) failed(ops []op, err error) {
	away := pgdb.Away(err) || pgdb.NoSpace(err)
	l.setAway(away)
	l.pause = away && !pgdb.Locked(err)
	for _, o := range ops {
		if q, ok := unwaited(o); ok && away {
			l.later(q, err)
			continue
		}
		o.Finish(err)
	}
}

// unwaited returns o as a settleOp if it consists of acknowledgements without a waiting caller.
func unwaited(o op) (q *settleOp, ok bool) {
	q, ok = o.(*settleOp)
	return q, ok && !q.Waited()
}

// waitForTable parks operations with waiting callers: upkeep has locked the table for a moment, to drop it.
func (l *lane) waitForTable(ops []op, err error) {
	var waiting []op
	for _, o := range ops {
		if q, ok := unwaited(o); ok {
			l.later(q, err)
			continue
		}
		waiting = append(waiting, o)
	}
	l.parking.park(ops, waiting)
}

func (l *lane) setAway(away bool) {
	l.mu.Lock()
	l.away = away
	l.mu.Unlock()
}

// later sends acknowledgements without a waiting caller through another node if this one cannot reach the database; otherwise it tries them
// again.
func (l *lane) later(q *settleOp, err error) {
	if divert := l.s.divert.Load(); divert == nil || !pgdb.Away(err) || pgdb.Locked(err) || !(*divert)(q.batch) {
		l.again(q)
	}
}

// again tries acknowledgements without a waiting caller once more, a little later.
func (l *lane) again(q *settleOp) {
	l.mu.Lock()
	ended := l.ended
	l.mu.Unlock()
	if ended {
		l.s.cfg.Log.Warn("acknowledgements were lost; they will come again", "count", len(q.batch))
		return
	}
	l.submitLazy(q)
	l.mu.Lock()
	l.lazyAt = time.Now().Add(awayPause)
	l.mu.Unlock()
}

// try commits ops, and tries again after a conflict: the database undid the commit because of a deadlock, or a table or a recipient is
// gone. A broken connection is an error, whatever the commit's outcome.
func (l *lane) try(ctx context.Context, ops []op) error {
	waited := false
	for attempt := 1; ; attempt++ {
		err := l.s.tables.with(ctx, func(set *tableSet) error { return l.transact(ctx, set, ops) })
		if err == nil || attempt == tries || !inTheWay(err) || pgdb.TableLocked(err) || waited && pgdb.Locked(err) { // not for a recipient's row
			return pgdb.Late(ctx, err)
		}
		if waited = pgdb.Locked(err); waited {
			l.parking.suspect(ops)
			continue
		}
		time.Sleep(rand.N(time.Duration(attempt) * 5 * time.Millisecond)) // a random pause, so that transactions that collided do not collide again
	}
}

// errGone says that another node erased a recipient that this node knew.
var errGone = errors.New("a recipient was erased meanwhile")

func inTheWay(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, errGone) || pgdb.Locked(err) || pgdb.Idle(err) || errors.As(err, &pg) && (pg.Code == "40P01" || pg.Code == "40001")
}

func (l *lane) transact(ctx context.Context, set *tableSet, ops []op) error {
	conn, err := l.s.db.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if past := pgdb.Timeline(conn.Conn()); past != l.past {
		// Another database server has taken over, perhaps without the last commits. Those commits' rows are then gone, and their keys are
		// assigned to others.
		if l.past != "" {
			clear(l.keys)
			clear(l.room)
			l.s.notes.ForgetMarks()
		}
		l.past = past
	}
	t := newTransaction(l, conn.Conn(), set)
	if err := t.run(ctx, ops); err != nil {
		if t.sent && answerLost(err) {
			l.doubt(t)
		}
		_ = rollback(ctx, conn.Conn())
		return err
	}
	l.did, l.missed, l.passed, l.left = t.outcome, t.missed, t.passed, t.left
	return nil
}
