package pgdb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// attempts is how often a transaction is begun that others got into the way of.
const attempts = 5

// noAnswer is why a context has ended in which the database did not answer: after how long.
type noAnswer time.Duration

func (d noAnswer) Error() string {
	return fmt.Sprintf("PostgreSQL did not answer within %s", time.Duration(d))
}

// Within bounds how long the database may take to answer; see Late.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, noAnswer(d))
}

// Late adds to an error that the database did not answer in time, if that is why ctx has ended. Such an error is Away.
func Late(ctx context.Context, err error) error {
	var late noAnswer
	if cause := context.Cause(ctx); err != nil && errors.As(cause, &late) && !errors.Is(err, cause) {
		return errors.Join(cause, err)
	}
	return err
}

// Do runs f in one transaction and commits it. If the database undid it for the sake of others (a deadlock, a
// serialization failure), f runs again, so it starts from nothing each time. If the connection breaks during COMMIT nobody knows
// what became of it: that is an error and is never tried again. An error of f that is not the database's is returned as it is.
func (db *DB) Do(ctx context.Context, op string, f func(context.Context, pgx.Tx) error) error {
	return again(ctx, op, func() (bool, error) { return db.once(ctx, f) })
}

// Send runs statements in one transaction and one round trip, and has read take their results in order, each time that the
// transaction was begun. What fails in the database undoes all; what read makes of its answers undoes nothing. Errors are as
// Do's.
func (db *DB) Send(ctx context.Context, op string, statements *pgx.Batch, read func(pgx.BatchResults) error) error {
	return again(ctx, op, func() (bool, error) { return db.sendOnce(ctx, statements, read) })
}

// again calls once until it is through, or fails for another reason than that others were in the way.
func again(ctx context.Context, op string, once func() (own bool, err error)) error {
	for attempt := 1; ; attempt++ {
		own, err := once()
		switch {
		case err == nil || own:
			return err
		case attempt == attempts || !undone(err) && !errors.Is(err, errNotBegun):
			return Error(op, err)
		}
		// So that those who met do not meet again.
		pause := time.NewTimer(rand.N(time.Duration(attempt) * 5 * time.Millisecond))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return Error(op, errors.Join(context.Cause(ctx), err))
		}
	}
}

// errNotBegun says that a connection turned out to be broken before anything was done over it, which a restart of the database does
// to all that there are.
var errNotBegun = errors.New("transaction could not be begun")

// once reports with an error whether it is f's own.
func (db *DB) once(ctx context.Context, f func(context.Context, pgx.Tx) error) (own bool, err error) {
	if db.closed.Load() {
		return false, ErrClosed
	}
	err = db.with(ctx, func(bounded context.Context, c *pgxConn) error {
		begun := false
		err := pgx.BeginFunc(bounded, c, func(tx pgx.Tx) error {
			begun = true
			err := f(bounded, tx)
			own = isOwn(bounded, c, err)
			return err
		})
		if err != nil && !begun && c.Conn().IsClosed() && bounded.Err() == nil {
			err = errors.Join(errNotBegun, err)
		}
		return err
	})
	return own, err
}

func (db *DB) sendOnce(ctx context.Context, statements *pgx.Batch, read func(pgx.BatchResults) error) (own bool, err error) {
	err = db.with(ctx, func(bounded context.Context, c *pgxConn) error {
		fresh := &pgx.Batch{} // a batch remembers what was prepared, which a failure forgets
		for _, q := range statements.QueuedQueries {
			fresh.Queue(q.SQL, q.Arguments...)
		}
		results := c.SendBatch(bounded, fresh)
		err := read(results)
		closing := results.Close() // the transaction commits with its last statement, whatever read makes of it
		if own = isOwn(bounded, c, err); err == nil || own && closing != nil {
			own, err = false, closing
		}
		return err
	})
	return own, err
}

// isOwn reports whether an error is a caller's function's own and not the database's.
func isOwn(ctx context.Context, c *pgxConn, err error) bool {
	return err != nil && !c.Conn().IsClosed() && code(err) == "" && ctx.Err() == nil
}

// with gives f a connection for a bounded time.
func (db *DB) with(ctx context.Context, f func(context.Context, *pgxConn) error) error {
	bounded, cancel := Within(ctx, AnswerWithin)
	defer cancel()
	err := db.pool.AcquireFunc(bounded, func(c *pgxConn) error {
		err := f(bounded, c)
		if readOnly(err) {
			// What was the primary is one no more: connect anew, to the one that is.
			_ = c.Conn().Close(bounded)
		}
		return err
	})
	return Late(bounded, err)
}

// Read runs f in one transaction that only reads, in which it sees the state of one moment.
func (db *DB) Read(ctx context.Context, op string, f func(context.Context, pgx.Tx) error) error {
	return db.Do(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
			return err
		}
		return f(ctx, tx)
	})
}
