package postgres

import (
	"context"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
)

// PostgreSQL keeps its log from the slot's restart_lsn on, the place where decoding could begin anew. That place moves when the log says which
// transactions run. PostgreSQL writes this every 15 seconds, and a neighbour writes gigabytes in between, so the source has it written earlier.

// pace says how often the source has it written.
type pace struct {
	after uint64        // bytes of log since the last time, and bytes that the slot must keep for want of it
	every time.Duration // at least between two times
}

var (
	quiet = pace{4 << 20, 50 * time.Millisecond}
	// loud is the pace where each time adds lines to the log file of PostgreSQL that people read.
	loud = pace{64 << 20, time.Second}
)

const (
	runningWithin = 30 * time.Second // a temporary slot waits for the transactions that run
	runningAgain  = 10 * time.Minute // after PostgreSQL refused
)

// logger has a server log which transactions run.
type logger struct {
	c    *conn
	slot string
	sql  string
	pace pace
}

// Statements that have PostgreSQL log which transactions run. Making a logical slot does it, since decoding must begin somewhere.
const (
	logByFunction = "SELECT pg_log_standby_snapshot()"
	logBySlot     = "SELECT pg_drop_replication_slot(slot_name) FROM pg_create_logical_replication_slot('godwit_' || pg_backend_pid(), 'pgoutput', true)"
)

// newLogger finds the best way that the user has.
func newLogger(ctx context.Context, c *conn, slot string) (*logger, error) {
	l := &logger{c: c, slot: slot, sql: logBySlot, pace: loud}
	may, silent, err := c.logsRunning(ctx)
	switch {
	case err != nil:
		return nil, err
	case may:
		l.sql, l.pace = logByFunction, quiet
	case silent: // a slot that is made says so at the level LOG, which is below fatal
		if err := c.exec(ctx, "SET log_min_messages = fatal"); err != nil {
			return nil, err
		}
		l.pace = quiet
	}
	return l, c.exec(ctx, "SET statement_timeout = "+strconv.FormatInt(runningWithin.Milliseconds(), 10))
}

// logsRunning reports whether the user may call pg_log_standby_snapshot, and whether it may silence the server's messages of its own session.
func (c *conn) logsRunning(ctx context.Context) (may, silent bool, err error) {
	sql := "SELECT false, rolsuper FROM pg_roles WHERE rolname = current_user"
	switch {
	case c.version >= 160_000:
		sql = "SELECT has_function_privilege('pg_log_standby_snapshot()', 'EXECUTE'), has_parameter_privilege('log_min_messages', 'SET')"
	case c.version >= 150_000:
		sql = "SELECT false, has_parameter_privilege('log_min_messages', 'SET')"
	}
	rows, err := c.query(ctx, sql)
	if err != nil || len(rows) != 1 {
		return false, false, err
	}
	return string(rows[0][0]) == "t", string(rows[0][1]) == "t", nil
}

// once has it logged if the slot keeps much log that the source has confirmed. It returns after how many bytes of log to look again.
func (l *logger) once(ctx context.Context) (uint64, error) {
	kept, found, err := l.c.one(ctx, "SELECT confirmed_flush_lsn - restart_lsn > "+strconv.FormatUint(l.pace.after, 10)+" AND NOT pg_is_in_recovery() FROM pg_replication_slots WHERE slot_name = "+literal(l.slot))
	if err != nil || !found || kept != "t" {
		return quiet.after, err
	}
	ctx, cancel := context.WithTimeout(ctx, runningWithin+answerWithin)
	defer cancel()
	_, err = l.c.rows(ctx, l.sql)
	return l.pace.after, err
}

// logRunning has the server log which transactions run, as its log grows, until ctx ends. If PostgreSQL refuses, it is asked again much
// later: it frees the log by itself then, only less often.
func (s *stream) logRunning(ctx context.Context) error {
	var l *logger
	defer func() {
		if l != nil {
			l.c.close()
		}
	}()
	for rest := quiet.every; ; {
		pause.For(ctx, rest)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.grown:
		}
		var err error
		if l == nil || l.c.IsClosed() {
			l, err = s.logger(ctx)
		}
		if err == nil {
			var again uint64
			rest = l.pace.every
			again, err = l.once(ctx)
			s.grownAt.Store(s.ahead.Load() + again)
		}
		if err != nil && ctx.Err() == nil {
			rest = runningAgain
			s.log.WarnContext(ctx, "PostgreSQL keeps its log longer than it must, since it does not say earlier which transactions run", "error", err)
		}
	}
}

// logger connects once more, since making a slot may take long.
func (s *stream) logger(ctx context.Context) (*logger, error) {
	c, err := connect(ctx, s.t, false)
	if err != nil {
		return nil, err
	}
	l, err := newLogger(ctx, c, s.slot)
	if err != nil {
		c.close()
		return nil, err
	}
	return l, nil
}
