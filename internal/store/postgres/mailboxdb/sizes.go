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

// In a few tables rows come and go with each notification. Vacuum has their space used again and hardly ever gives it back: a table
// that has grown while somebody kept a transaction open stays as large, and so do its indexes. So one that has been far larger than it
// needs for a while, and has few rows, is written anew by VACUUM FULL. Nobody else can use it meanwhile: for some milliseconds.

const (
	// sizesEvery is the interval between measurements of table sizes, a little less than upkeep's minute. A table is rewritten if it was
	// too large in sizesLooks measurements in a row.
	sizesEvery = 50 * time.Second
	sizesLooks = 4
	// rewriteEvery limits how often one table is rewritten: a table that grows again needs its size.
	rewriteEvery = 30 * time.Minute
	// rewriteRows is how many rows are few: 50,000 take a tenth of a second. rewriteFrom is how large a table may always be.
	rewriteRows = 50_000
	rewriteFrom = 4 << 20
	// rewriteWait is how long writing a table anew waits for the table's users: not long, since later users wait behind it;
	// rewriteWithin bounds the rewrite with this wait.
	rewriteWait   = 200 * time.Millisecond
	rewriteWithin = 2 * rewriteWait
	rewriteTries  = 5
	rewritePause  = time.Second
)

// rowBytes is the size of a row with its index entries, in the tables whose rows come and go.
var rowBytes = map[string]int64{"pending": 140, "recipient": 240, "device": 140, "escalation": 260}

// sizes holds the actual and the necessary sizes of tables.
type sizes struct {
	mu     sync.Mutex
	next   time.Time // when to look again
	tables map[string]*tableSize
	dead   atomic.Int64 // rows of pending that are deleted and not removed yet, at the last measurement
}

type tableSize struct {
	name       string
	size       int64 // bytes, with indexes
	live, dead int64
	gone       int64 // rows that were deleted or replaced, ever
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

// after adds the results of earlier measurements. Between two vacuums a table has to hold the rows deleted meanwhile; vacuums are a
// minute apart if there are many such rows.
func (t tableSize) after(before *tableSize) *tableSize {
	aMinute := float64(t.gone-before.gone) * float64(time.Minute) / float64(t.looked.Sub(before.looked))
	need := (t.live + max(t.dead, int64(aMinute))) * rowBytes[t.name]
	t.needs = append(slices.Clone(before.needs), need)
	t.needs = t.needs[max(0, len(t.needs)-sizesLooks):]
	t.rewritten = before.rewritten
	return &t
}

// tooLarge reports whether a table was more than half again its necessary size in all measurements. While somebody keeps a
// transaction open it has to hold dead rows.
func (t *tableSize) tooLarge() bool {
	need := slices.Max(t.needs)
	return len(t.needs) == sizesLooks && t.live <= rewriteRows && t.size > max(rewriteFrom, need+need/2)
}

// rewrite rewrites a table, and tries again if somebody is using it: a reader, or autovacuum.
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

// vacuumFull is no transaction, so its bounds are the session's until it has ended.
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
