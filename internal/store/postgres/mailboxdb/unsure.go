package mailboxdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// If a connection breaks during COMMIT, the outcome of the commit is unknown, and waiting callers get an error. But if the commit
// succeeded, the observer must be informed. So each commit writes a trace, and the lane looks for it before it begins the next commit.

// commitTrace is a row that a commit adds to the done table of an hour. Its position is negative, which no copy's is. It is dropped with
// the table.
type commitTrace struct{ hour, pos int64 }

// The status column of a trace.
const (
	traceDone    = 0  // the commit is there
	traceRefused = -1 // a check came before the commit, which can no longer succeed
)

const (
	writeTrace = "INSERT INTO done_%d (pos, settled_at, attempts, status) VALUES ($1, $2, 0, $3)"
	// If the commit is still under way, this INSERT waits for it.
	refuseCommit = writeTrace + " ON CONFLICT (pos) DO NOTHING"
	readTrace    = "SELECT status FROM done_%d WHERE pos = $1"
	// All rows that a transaction has written have its number in xmin.
	settledWith = "SELECT d.pos FROM done_%[1]d m JOIN done_%[1]d d ON d.xmin = m.xmin WHERE m.pos = $1 AND d.pos = ANY($2)"
)

// firstTrace returns the position at which a lane's traces begin. It is random, so that it is far from other lanes' traces.
func firstTrace() int64 { return math.MinInt64 + rand.Int64N(1<<62) }

func (t *transaction) askTrace(a *asking) {
	t.l.lastTrace++
	t.trace = commitTrace{hour: t.hour, pos: t.l.lastTrace}
	a.ask(fmt.Sprintf(writeTrace, t.hour), nil, t.trace.pos, t.l.s.nowMS(), traceDone)
}

// answerLost reports whether an error leaves open what became of a commit that was to be sent: the database has not answered that it
// was undone. (Errors that pgx calls safe to try again are not: a connection found closed may have carried the COMMIT.)
func answerLost(err error) bool {
	var pg *pgconn.PgError
	return !errors.As(err, &pg) || pg.SeverityUnlocalized != "ERROR" && !pgdb.Idle(err)
}

// unsure is a commit with an unknown outcome. It shares no memory with callers, who have got their answer.
type unsure struct {
	did  transaction // the commit's work, as far as it is known
	lazy []*settleOp // that nobody waits for
}

// doubt keeps a commit whose answer was lost, for makeSure.
func (l *lane) doubt(t *transaction) {
	u := &unsure{did: transaction{l: l, outcome: t.outcome}}
	u.did.quick, u.did.missed = cloneSettles(t.quick), cloneSettles(t.missed)
	for _, c := range t.once {
		c.part = nil
		u.did.once = append(u.did.once, c)
	}
	for _, e := range t.ended {
		e.by = nil
		u.did.ended = append(u.did.ended, e)
	}
	l.unsure = u
}

func cloneSettles(list []*mailbox.Settle) (clones []*mailbox.Settle) {
	for _, q := range list {
		clone := *q
		clones = append(clones, &clone)
	}
	return clones
}

// keep stores the operations that have no waiting caller, and returns the others.
func (u *unsure) keep(ops []op) (rest []op) {
	for _, o := range ops {
		if q, ok := unwaited(o); ok {
			u.lazy = append(u.lazy, q)
		} else {
			rest = append(rest, o)
		}
	}
	return rest
}

// makeSure finds out the outcome of a commit whose answer was lost, and informs the observer if it succeeded.
func (l *lane) makeSure() error {
	u := l.unsure
	if u == nil {
		return nil
	}
	var there bool
	err := l.s.db.Do(context.Background(), "look up a commit", func(ctx context.Context, tx pgx.Tx) (err error) {
		there, err = u.look(ctx, tx)
		return err
	})
	if dropped(err) { // the trace's table was dropped: the commit is more than an hour old, or a database with another history has taken over
		l.s.cfg.Log.Warn("a commit whose answer was lost cannot be looked up any more: if it is there, nobody was told of it", "hour", u.did.trace.hour)
		there, err = false, nil
	}
	if err != nil {
		return err
	}
	l.unsure = nil
	if !there {
		for _, q := range u.lazy {
			l.again(q)
		}
		return nil
	}
	u.did.storedAtOnce()
	u.did.settledQuickly()
	u.did.settledNow()
	l.did = u.did.outcome
	l.told()
	if len(u.did.missed) > 0 {
		l.again(&settleOp{lane: l, batch: u.did.missed, slow: true})
	}
	return nil
}

// look reports whether the commit succeeded, and reads which copies it settled. If it did not, it no longer can.
func (u *unsure) look(ctx context.Context, tx pgx.Tx) (there bool, err error) {
	t := &u.did
	t.gone = nil
	var asked []int64
	for _, q := range t.quick {
		asked = append(asked, q.Pos)
	}
	for _, e := range t.ended {
		asked = append(asked, e.pos)
	}
	status := int16(traceRefused)
	a := &asking{}
	a.ask(fmt.Sprintf(refuseCommit, t.trace.hour), nil, t.trace.pos, t.l.s.nowMS(), traceRefused)
	a.ask(fmt.Sprintf(readTrace, t.trace.hour), func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&status}, func() error { return nil })
		return err
	}, t.trace.pos)
	t.askStoredWith(a)
	if len(asked) > 0 {
		a.ask(fmt.Sprintf(settledWith, t.trace.hour), t.readGone, t.trace.pos, asked)
	}
	err = a.send(ctx, tx.Conn())
	return status == traceDone, err
}
