package pgdb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/engine/pause"
)

// attempts limits how often a transaction is begun that conflicts with others.
const attempts = 5

// patientWithin is how long the server keeps a Patient transaction whose node sends nothing more. A loaded machine may take seconds between
// two statements.
const patientWithin = time.Minute

// Patient returns the options of a transaction that starts with the given BEGIN statement and on which no everyday work waits. Between its
// statements this process may work for longer than other transactions may be idle. The limit is set together with BEGIN, before the
// transaction is idle.
func Patient(begin string) pgx.TxOptions {
	return pgx.TxOptions{BeginQuery: fmt.Sprintf("%s; SET LOCAL idle_in_transaction_session_timeout = %d", begin, patientWithin.Milliseconds())}
}

// noAnswer is the cause of a context that ended because the database did not answer within this duration.
type noAnswer time.Duration

func (d noAnswer) Error() string {
	return fmt.Sprintf("PostgreSQL did not answer within %s", time.Duration(d))
}

// Within bounds how long the database may take to answer; see Late.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, noAnswer(d))
}

// Late returns err and, if ctx ended because the database did not answer in time, adds that. Such an error is Away.
func Late(ctx context.Context, err error) error {
	var late noAnswer
	if cause := context.Cause(ctx); err != nil && errors.As(cause, &late) && !errors.Is(err, cause) {
		return errors.Join(cause, err)
	}
	return err
}

// Do runs f in one transaction and commits it. If the database undid the transaction because of a conflict (a deadlock, a serialization
// failure) or ended the connection before COMMIT, f runs again, so it must start from nothing each time. If the connection breaks during
// COMMIT, the outcome is unknown: that is an error and is never tried again. An error of f that is not the database's is returned as it is.
func (db *DB) Do(ctx context.Context, op string, f func(context.Context, pgx.Tx) error) error {
	return again(ctx, op, func() (bool, error) { return db.once(ctx, f) })
}

// Send runs statements in one transaction and one round trip. read reads their results in order, in each attempt of the transaction. A
// database error undoes everything; an error of read undoes nothing. Send returns the same errors as Do.
func (db *DB) Send(ctx context.Context, op string, statements *pgx.Batch, read func(pgx.BatchResults) error) error {
	return again(ctx, op, func() (bool, error) { return db.sendOnce(ctx, statements, read) })
}

// again calls once until it succeeds, or fails for a reason other than a conflict with other transactions.
func again(ctx context.Context, op string, once func() (own bool, err error)) error {
	for attempt := 1; ; attempt++ {
		own, err := once()
		switch {
		case err == nil || own:
			return err
		case attempt == attempts || !undone(err) && !errors.Is(err, errNotBegun) && !errors.Is(err, errCut):
			return Error(op, err)
		}
		// The pause is random, so that transactions that collided do not collide again.
		if !pause.For(ctx, rand.N(time.Duration(attempt)*5*time.Millisecond)) {
			return Error(op, errors.Join(context.Cause(ctx), err))
		}
	}
}

// errNotBegun reports a connection that turned out to be broken before a transaction used it. A restart of the database breaks all existing
// connections.
var errNotBegun = errors.New("transaction could not be begun")

// errCut reports that the server ended a connection in a transaction before COMMIT, as it does if the transaction is idle for too long.
// Over a Unix socket the next statement may fail before the server's reason is read.
var errCut = errors.New("connection was closed in a transaction")

// cut reports whether a statement was not sent, because the connection was closed.
func cut(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || pgconn.SafeToRetry(err)
}

// once runs f in one transaction; own reports whether err is f's own error.
func (db *DB) once(ctx context.Context, f func(context.Context, pgx.Tx) error) (own bool, err error) {
	if db.closed.Load() {
		return false, ErrClosed
	}
	err = db.with(ctx, func(bounded context.Context, c *pgxConn) error {
		begun, committing := false, false
		err := pgx.BeginFunc(bounded, c, func(tx pgx.Tx) error {
			begun = true
			err := f(bounded, tx)
			own, committing = isOwn(bounded, c, err), err == nil
			return err
		})
		if err != nil && c.Conn().IsClosed() && bounded.Err() == nil {
			switch {
			case !begun:
				err = errors.Join(errNotBegun, err)
			case !committing && cut(err):
				err = errors.Join(errCut, err)
			}
		}
		return err
	})
	return own, err
}

func (db *DB) sendOnce(ctx context.Context, statements *pgx.Batch, read func(pgx.BatchResults) error) (own bool, err error) {
	err = db.with(ctx, func(bounded context.Context, c *pgxConn) error {
		fresh := &pgx.Batch{} // a used batch refers to prepared statements, which a failure may have dropped
		for _, q := range statements.QueuedQueries {
			fresh.Queue(q.SQL, q.Arguments...)
		}
		results := c.SendBatch(bounded, fresh)
		err := read(results)
		closing := results.Close() // the transaction commits with its last statement, even if read fails
		if own = isOwn(bounded, c, err); err == nil || own && closing != nil {
			own, err = false, closing
		}
		return err
	})
	return own, err
}

// isOwn reports whether the caller's function returned err itself, rather than passing on a database error.
func isOwn(ctx context.Context, c *pgxConn, err error) bool {
	return err != nil && !c.Conn().IsClosed() && code(err) == "" && ctx.Err() == nil
}

// with calls f with a connection, for a limited time.
func (db *DB) with(ctx context.Context, f func(context.Context, *pgxConn) error) error {
	bounded, cancel := Within(ctx, AnswerWithin)
	defer cancel()
	err := db.pool.AcquireFunc(bounded, func(c *pgxConn) error {
		err := f(bounded, c)
		if readOnly(err) {
			// This server is no longer the primary: connect to the current one.
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
