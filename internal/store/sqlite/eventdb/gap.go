package eventdb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/store/eventlog"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ event.Repairable = (*Log)(nil)

// gapColumns record which events the log may lack. If mended is at least lost it lacks none; else it may lack events emitted after whole.
const gapColumns = `
ALTER TABLE log ADD COLUMN whole  INTEGER NOT NULL DEFAULT 0; -- ms
ALTER TABLE log ADD COLUMN since  INTEGER NOT NULL DEFAULT 0; -- ms; nothing emitted after whole happened before
ALTER TABLE log ADD COLUMN lost   INTEGER NOT NULL DEFAULT 0; -- how many events were dropped; and 1 for each crash
ALTER TABLE log ADD COLUMN mended INTEGER NOT NULL DEFAULT 0; -- how many of these are there again
ALTER TABLE log ADD COLUMN open   INTEGER NOT NULL DEFAULT 0; -- 1 while a server runs
`

// begin records that events are emitted from now on. If the log was not closed, it also records that some events are lost.
func (l *Log) begin(ctx context.Context) error {
	now := l.opts.Now().UnixMilli()
	newest := now
	if l.last > 0 {
		newest = min(now, int64(l.last>>eventlog.IDShift)) // a time
	}
	err := l.db.Do(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.EachOnce(c, `UPDATE log SET lost = lost + open, open = 1,
			since = CASE WHEN lost + open > mended THEN since ELSE ?1 END, whole = CASE WHEN lost + open > mended THEN whole ELSE ?2 END
			RETURNING lost`, []any{newest, now}, func(row *sqlite.Stmt) error {
			l.lost = row.ColumnInt64(0)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("note that events are emitted: %w", err)
	}
	return nil
}

// lostNow returns the number of events lost so far, including those of earlier processes.
func (l *Log) lostNow() int64 { return l.lost + l.queue.Lost() }

// advance records the newest id and, unless events are lost, that the log is complete up to the time taken.
func (l *Log) advance(c *sqlite.Conn, last uint64, taken time.Time) error {
	return sqlitedb.Each(c, "UPDATE log SET last_id = ?1, lost = ?2, whole = CASE WHEN mended >= ?2 THEN ?3 ELSE whole END",
		[]any{int64(last), l.lostNow(), taken.UnixMilli()}, nil) // milliseconds since 1970, shifted: fits until the year 2248
}

// ended records that the log is closed.
func (l *Log) ended(ctx context.Context) error {
	return l.db.Do(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "UPDATE log SET open = 0, lost = ?", []any{l.lostNow()}, nil)
	})
}

// Gaps implements event.Repairable.
func (l *Log) Gaps(ctx context.Context, _ func(context.Context) ([]string, error)) (gaps []event.Gap, err error) {
	lost := l.lostNow()
	err = l.db.Read(ctx, func(c *sqlite.Conn) error {
		gaps = nil
		return sqlitedb.EachOnce(c, "SELECT whole, since, mended FROM log", nil, func(row *sqlite.Stmt) error {
			if row.ColumnInt64(2) < lost {
				gaps = append(gaps, event.Gap{Lost: lost, From: millis.Time(row.ColumnInt64(0)), Since: millis.Time(row.ColumnInt64(1))})
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read what the event log lacks: %w", err)
	}
	return gaps, nil
}

// Repaired implements event.Repairable.
func (l *Log) Repaired(ctx context.Context, gaps []event.Gap) error {
	for _, g := range gaps {
		err := l.db.Do(ctx, func(c *sqlite.Conn) error {
			return sqlitedb.Each(c, "UPDATE log SET mended = max(mended, ?)", []any{g.Lost}, nil)
		})
		if err != nil {
			return fmt.Errorf("note that the event log lacks nothing: %w", err)
		}
	}
	return nil
}

// CutOff implements event.Repairable. It refuses no event: only this process stores events, right after their commits.
func (l *Log) CutOff(_ context.Context, age time.Duration) (time.Time, error) {
	return l.opts.Now().Add(-age), nil
}

// Flush implements event.Repairable.
func (l *Log) Flush(ctx context.Context) error { return l.queue.Flush(ctx) }
