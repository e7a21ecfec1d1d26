package pghealth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A deleted row's bytes stay in its page until another row overwrites them: vacuum frees the space and leaves the bytes. VACUUM FULL writes
// a table and its indexes into new files, without these bytes, and blocks all users of the table meanwhile. So Scrub rewrites only small
// tables.

const (
	// scrubBytes limits the size of a table with its indexes: rewriting that much takes 0.2 s on a loaded machine with two cores.
	scrubBytes = 8 << 20
	// scrubWait bounds how long VACUUM FULL waits for a table's lock, since others queue behind it. scrubWithin bounds the whole VACUUM
	// FULL, this wait included.
	scrubWait   = 200 * time.Millisecond
	scrubWithin = 3 * scrubWait
	scrubTries  = 5
	scrubPause  = time.Second
	// analyzeWithin limits an ANALYZE, which does not block readers or writers.
	analyzeWithin = 15 * time.Second
	// horizonTries, scrubPause apart, wait for transactions that began before the deletions: VACUUM FULL copies the rows that these may
	// still see.
	horizonTries = 10
)

// scrubSQL lists Godwit's tables with text columns (numbers identify nobody), and pg_statistic, where ANALYZE stores samples of texts.
const scrubSQL = `
SELECT format('%I.%I', n.nspname, c.relname), pg_total_relation_size(c.oid) <= $1,
	NOT current_setting('track_counts')::boolean OR coalesce(s.n_tup_upd + s.n_tup_del > 0, true),
	EXISTS (SELECT FROM pg_stats p WHERE p.schemaname = n.nspname AND p.tablename = c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE c.relkind = 'r' AND n.nspname IN ('godwit_app', 'godwit_campaign', 'godwit_event', 'godwit_lease', 'godwit_mailbox', 'godwit_object')
	AND EXISTS (SELECT FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0 AND y.typcategory IN ('A', 'S', 'U'))
UNION ALL
SELECT 'pg_catalog.pg_statistic', pg_total_relation_size('pg_catalog.pg_statistic') <= $1 AND pg_has_role(datdba, 'USAGE'), true, false
FROM pg_database WHERE datname = current_database()
ORDER BY 1 -- pg_statistic after those that were analyzed`

// unsampleSQL composes the statement that makes PostgreSQL drop its samples of texts: it sets columns to the type that they have. ANALYZE
// does not replace the samples of an empty table.
const unsampleSQL = `
SELECT 'ALTER TABLE ' || $1 || ' ' || string_agg(format('ALTER %I TYPE %s', a.attname, format_type(a.atttypid, a.atttypmod))
	|| CASE WHEN l.oid IS NULL THEN '' ELSE format(' COLLATE %I.%I', l.collnamespace::regnamespace, l.collname) END, ', ')
FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped AND y.typcategory IN ('A', 'S', 'U')`

// scrubbed is a table that may hold bytes of deleted rows.
type scrubbed struct {
	name             string
	small            bool // at most scrubBytes, and this user may rewrite it
	changed, sampled bool // changed: rows were deleted or replaced, by PostgreSQL's counts; sampled: ANALYZE has samples of it
}

// Scrub rewrites small tables, so that no bytes of deleted rows are left in their files, and renews the samples of all tables. It returns
// the SQL that does so for tables that are too large or constantly in use. It fails while a holder keeps the horizon back.
func (h *Health) Scrub(ctx context.Context) (left string, err error) {
	conn, err := h.db.Pool().Acquire(ctx)
	if err != nil {
		return "", fmt.Errorf("overwrite deleted rows: %w", err)
	}
	defer conn.Release()
	if err := h.passed(ctx, conn.Conn()); err != nil {
		return "", fmt.Errorf("overwrite deleted rows: %w", err)
	}
	rows, err := conn.Query(ctx, scrubSQL, scrubBytes)
	if err != nil {
		return "", fmt.Errorf("list tables with deleted rows: %w", err)
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t scrubbed, err error) {
		err = row.Scan(&t.name, &t.small, &t.changed, &t.sampled)
		return t, err
	})
	if err != nil {
		return "", fmt.Errorf("list tables with deleted rows: %w", err)
	}
	var still []string
	for _, t := range tables {
		done := !t.small && !t.changed
		if t.small {
			done, err = h.bounded(ctx, conn.Conn(), "VACUUM FULL "+t.name, scrubWithin)
		}
		if t.sampled && err == nil {
			var fresh bool
			fresh, err = h.sampleAnew(ctx, conn.Conn(), t.name)
			done = done && fresh
		}
		if err != nil {
			return "", fmt.Errorf("overwrite deleted rows of %s: %w", t.name, err)
		}
		if !done {
			still = append(still, t.name)
		}
	}
	if len(still) == 0 {
		return "", nil
	}
	return "VACUUM (FULL, ANALYZE) " + strings.Join(still, ", "), nil
}

// sampleAnew replaces the samples that ANALYZE keeps of a table's rows.
func (h *Health) sampleAnew(ctx context.Context, c *pgx.Conn, table string) (done bool, err error) {
	var empty bool
	if err := c.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM "+table+")").Scan(&empty); err != nil {
		return false, err
	}
	if !empty {
		return h.bounded(ctx, c, "ANALYZE "+table, analyzeWithin)
	}
	var sql string
	if err := c.QueryRow(ctx, unsampleSQL, table).Scan(&sql); err != nil {
		return false, err
	}
	return h.bounded(ctx, c, sql, scrubWithin)
}

// passed waits until no transaction can see rows any more that were deleted before this call.
func (h *Health) passed(ctx context.Context, c *pgx.Conn) error {
	var mine string
	if err := c.QueryRow(ctx, "SELECT pg_current_xact_id()::xid::text").Scan(&mine); err != nil {
		return err
	}
	for try := 1; ; try++ {
		var kind, name, about string
		err := c.QueryRow(ctx, "SELECT kind, name, about FROM ("+holdersSQL+") h WHERE NOT catalog AND behind > age($1::text::xid) LIMIT 1", mine).Scan(&kind, &name, &about)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		case try == horizonTries:
			return fmt.Errorf("%s %s (%s) may still read them: end it; godwit doctor says how", kind, name, about)
		}
		if err := h.rest(ctx); err != nil {
			return err
		}
	}
}

// bounded runs a statement that cannot run in a transaction. Its time limits are set for the session and reset afterwards. It tries again
// while the table is in use, and reports whether the statement was done.
func (h *Health) bounded(ctx context.Context, c *pgx.Conn, sql string, within time.Duration) (done bool, err error) {
	pg := c.PgConn()
	bounds := fmt.Sprintf("SET lock_timeout = %d; SET statement_timeout = %d", scrubWait.Milliseconds(), within.Milliseconds())
	if _, err := pg.Exec(ctx, bounds).ReadAll(); err != nil {
		return false, err
	}
	defer func() {
		if _, rerr := pg.Exec(ctx, "RESET lock_timeout; RESET statement_timeout").ReadAll(); rerr != nil {
			_ = c.Close(context.WithoutCancel(ctx)) // the pool makes another one
		}
	}()
	for try := 1; ; try++ {
		_, err := pg.Exec(ctx, sql).ReadAll()
		var said *pgconn.PgError
		switch {
		case err == nil:
			return true, nil
		case !errors.As(err, &said):
			return false, err
		case said.Code == "42P01": // the table was dropped together with its file
			return true, nil
		case said.Code == "57014": // it takes too long
			return false, nil
		case said.Code != "55P03" && said.Code != "40P01": // 55P03: the lock is not free; 40P01: a deadlock
			return false, err
		case try == scrubTries:
			return false, nil
		}
		if err := h.rest(ctx); err != nil {
			return false, err
		}
	}
}

func (h *Health) rest(ctx context.Context) error {
	select {
	case <-time.After(h.pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
