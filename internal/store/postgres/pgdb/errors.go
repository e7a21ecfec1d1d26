package pgdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

type pgxConn = pgxpool.Conn

// Error adds the operation to a database error; nil stays nil.
func Error(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", op, Explain(err))
}

// Codes of errors, see PostgreSQL's documentation, appendix A.
const (
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	diskFull              = "53100"
	tooManyConnections    = "53300"
	readOnlyTransaction   = "25006"
	uniqueViolation       = "23505"
	lockNotAvailable      = "55P03"
	insufficientPrivilege = "42501"
	connectionException   = "08"    // a class
	operatorIntervention  = "57P"   // the server shuts down, starts up, or has crashed
	idleInTransaction     = "25P03" // the session was ended meanwhile
)

// code returns the SQLSTATE of an error that the database reported, and "" for any other error.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// undone reports whether the database has rolled a transaction back because of another transaction, or because the next statement came
// late.
func undone(err error) bool {
	c := code(err)
	return c == serializationFailure || c == deadlockDetected || c == lockNotAvailable || c == idleInTransaction
}

// Locked reports whether a transaction was rolled back because it waited too long for another transaction's lock.
func Locked(err error) bool { return code(err) == lockNotAvailable }

// TableLocked reports whether the lock of a Locked error is on a whole table: for a row's lock the server's message names the row.
func TableLocked(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == lockNotAvailable && pg.Where == ""
}

// Idle reports whether the server ended a transaction because its next statement came too late. Nothing of the
// transaction was kept.
func Idle(err error) bool { return code(err) == idleInTransaction }

func readOnly(err error) bool { return code(err) == readOnlyTransaction }

// NoSpace reports whether the database's disk is full.
func NoSpace(err error) bool { return code(err) == diskFull }

// Taken reports whether a row that was to be inserted exists already.
func Taken(err error) bool { return code(err) == uniqueViolation }

// Away reports whether the database cannot be reached now, so that a retry may succeed later. Whether a commit that was under way has
// succeeded is unknown then.
func Away(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if c := code(err); c != "" {
		return c == tooManyConnections || c == readOnlyTransaction || c == idleInTransaction || c == lockNotAvailable ||
			strings.HasPrefix(c, connectionException) || strings.HasPrefix(c, operatorIntervention)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	var late noAnswer
	return errors.As(err, &connect) || errors.As(err, &network) || errors.As(err, &late) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err) // the connection was found closed
}
