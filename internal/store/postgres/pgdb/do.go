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

var errNoAnswer = fmt.Errorf("PostgreSQL did not answer within %s", answerWithin)

// Do runs f in one transaction and commits it. If the database undid it for the sake of others (a deadlock, a
// serialization failure), f runs again, so it starts from nothing each time. If the connection breaks during COMMIT nobody knows
// what became of it: that is an error and is never tried again. An error of f that is not the database's is returned as it is.
func (db *DB) Do(ctx context.Context, op string, f func(context.Context, pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err, own := db.once(ctx, f)
		switch {
		case err == nil || own:
			return err
		case attempt == attempts || !undone(err):
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

// once reports with an error whether it is f's own.
func (db *DB) once(ctx context.Context, f func(context.Context, pgx.Tx) error) (err error, own bool) { //nolint:revive // the error is what own is about
	if db.closed.Load() {
		return ErrClosed, false
	}
	bounded, cancel := context.WithTimeoutCause(ctx, answerWithin, errNoAnswer)
	defer cancel()
	err = db.pool.AcquireFunc(bounded, func(c *pgxConn) error {
		err := pgx.BeginFunc(bounded, c, func(tx pgx.Tx) error {
			err := f(bounded, tx)
			own = err != nil && !c.Conn().IsClosed() && code(err) == "" && bounded.Err() == nil
			return err
		})
		if readOnly(err) {
			// What was the primary is one no more: connect anew, to the one that is.
			_ = c.Conn().Close(bounded)
		}
		return err
	})
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = errors.Join(errNoAnswer, err)
	}
	return err, own
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
