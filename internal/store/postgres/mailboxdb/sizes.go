package mailboxdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A few tables gain and lose rows with each notification. Vacuum makes the space of deleted rows reusable but hardly ever returns it to the
// disk: a table that grew while another session kept a transaction open stays that large, and so do its indexes. So a table is rewritten by
// VACUUM FULL if it has few rows and has been far too large for a while. The rewrite blocks all other users of the table for some
// milliseconds.

const (
	// sizesEvery is the interval between measurements of table sizes, a little less than upkeep's minute. A table is rewritten if it was
	// too large in sizesLooks measurements in a row.
	sizesEvery = 50 * time.Second
	sizesLooks = 4
	// rewriteEvery limits how often one table is rewritten: a table that soon grows again needs that size.
	rewriteEvery = 30 * time.Minute
	// A table is rewritten only if it has at most rewriteRows rows: 50,000 take a tenth of a second. A table of up to rewriteFrom bytes is
	// never too large.
	rewriteRows = 50_000
	rewriteFrom = 4 << 20
	// rewriteWait bounds how long a rewrite waits for the table's users; it is short because later users queue behind it. rewriteWithin
	// bounds the whole rewrite, this wait included.
	rewriteWait   = 200 * time.Millisecond
	rewriteWithin = 2 * rewriteWait
	rewriteTries  = 5
	rewritePause  = time.Second
)

// rowBytes is the size in bytes of a row with its index entries, for the tables that gain and lose rows all the time.
var rowBytes = map[string]int64{"pending": 140, "recipient": 240, "device": 140, "escalation": 260}

// sizes holds the actual and the necessary sizes of tables.
type sizes struct {
	mu     sync.Mutex
	next   time.Time // when to look again
	tables map[string]*tableSize
	dead   atomic.Int64 // rows of the table pending that were dead (deleted, not yet vacuumed) at the last measurement
}

type tableSize struct {
	name       string
	size       int64 // bytes, with indexes
	live, dead int64
	gone       int64 // rows deleted or replaced since statistics began
	looked     time.Time
	needs      []int64 // bytes, of the last looks
	rewritten  time.Time
}

// shrink measures the tables if it is time to, and rewrites those that are too large.
func (s *Store) shrink(ctx context.Context, now time.Time) error {
	r := &s.sizes
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.next) {
		return nil
	}
	r.next = now.Add(sizesEvery)
	if err := s.lookAtSizes(ctx, now); err != nil {
		return err
	}
	for _, t := range r.tables {
		if !t.tooLarge() || now.Sub(t.rewritten) < rewriteEvery {
			continue
		}
		t.rewritten = now
		if err := s.rewrite(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// lookAtSizes reads sizes and PostgreSQL's counts of rows. Where PostgreSQL does not count (track_counts is off), no
// table counts as too large.
func (s *Store) lookAtSizes(ctx context.Context, at time.Time) error {
	const sql = `SELECT c.relname, pg_total_relation_size(c.oid), greatest(c.reltuples::bigint, n.n_live_tup), n.n_dead_tup, n.n_tup_del + n.n_tup_upd - n.n_tup_hot_upd
		FROM pg_class c JOIN pg_stat_user_tables n ON n.relid = c.oid
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY($1) AND current_setting('track_counts')::boolean`
	names := make([]string, 0, len(rowBytes))
	for name := range rowBytes {
		names = append(names, name)
	}
	rows, err := s.db.Pool().Query(ctx, sql, names)
	if err != nil {
		return err
	}
	defer rows.Close()
	if s.sizes.tables == nil {
		s.sizes.tables = make(map[string]*tableSize)
	}
	for rows.Next() {
		now := tableSize{looked: at}
		if err := rows.Scan(&now.name, &now.size, &now.live, &now.dead, &now.gone); err != nil {
			return err
		}
		before := s.sizes.tables[now.name]
		if before == nil {
			before = &tableSize{gone: now.gone, looked: at.Add(-time.Minute)}
		}
		s.sizes.tables[now.name] = now.after(before)
		if now.name == "pending" {
			s.sizes.dead.Store(now.dead)
		}
	}
	return rows.Err()
}

// after adds the results of earlier measurements. A table must have room for the rows that are deleted between two vacuums; vacuums are a
// minute apart if there are many such rows.
func (t tableSize) after(before *tableSize) *tableSize {
	aMinute := float64(t.gone-before.gone) * float64(time.Minute) / float64(t.looked.Sub(before.looked))
	need := (t.live + max(t.dead, int64(aMinute))) * rowBytes[t.name]
	t.needs = append(slices.Clone(before.needs), need)
	t.needs = t.needs[max(0, len(t.needs)-sizesLooks):]
	t.rewritten = before.rewritten
	return &t
}

// tooLarge reports whether a table with few rows exceeds one and a half times the largest size that the last sizesLooks measurements found
// necessary. Dead rows count as necessary while another session's open transaction keeps them.
func (t *tableSize) tooLarge() bool {
	need := slices.Max(t.needs)
	return len(t.needs) == sizesLooks && t.live <= rewriteRows && t.size > max(rewriteFrom, need+need/2)
}

// rewrite rewrites a table, and tries again if a reader or autovacuum is using it.
func (s *Store) rewrite(ctx context.Context, t *tableSize) error {
	for try := 1; ; try++ {
		began := time.Now()
		err := s.vacuumFull(ctx, t.name)
		var pg *pgconn.PgError
		switch {
		case err == nil:
			s.cfg.Log.InfoContext(ctx, "a table that was much larger than its rows was written anew", "table", t.name, "bytes", t.size, "took", time.Since(began))
			t.needs = nil
			return nil
		case !errors.As(err, &pg) || pg.Code != "55P03" && pg.Code != "57014":
			return err
		case try == rewriteTries || pg.Code == "57014":
			s.cfg.Log.WarnContext(ctx, "a table is much larger than its rows and could not be written anew in a moment; run VACUUM FULL on it when little is going on",
				"table", s.cfg.Schema+"."+t.name, "bytes", t.size, "error", err)
			return nil
		}
		select {
		case <-time.After(rewritePause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// vacuumFull cannot run in a transaction, so it sets its time limits for the session and resets them afterwards.
func (s *Store) vacuumFull(ctx context.Context, table string) error {
	conn, err := s.db.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	c := conn.Conn().PgConn()
	bounds := "SET lock_timeout = " + fmt.Sprint(rewriteWait.Milliseconds()) + "; SET statement_timeout = " + fmt.Sprint(s.cfg.rewriteWithin.Milliseconds())
	if _, err := c.Exec(ctx, bounds).ReadAll(); err != nil {
		return err
	}
	_, err = c.Exec(ctx, "VACUUM FULL "+table).ReadAll()
	if _, rerr := c.Exec(ctx, "RESET lock_timeout; RESET statement_timeout").ReadAll(); rerr != nil {
		_ = c.Close(context.WithoutCancel(ctx))
	}
	return err
}
