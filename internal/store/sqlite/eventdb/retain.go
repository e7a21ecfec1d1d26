package eventdb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/eventlog"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

const (
	pruneEvery = 2 * time.Second
	pruneRows  = 16  // chunks deleted in one commit: at most 1 MB
	pruneMost  = 300 // such commits in one run, so that writing never waits long
)

// goneColumn says what was deleted.
const goneColumn = `
ALTER TABLE log ADD COLUMN gone INTEGER NOT NULL DEFAULT 0; -- newest event that was deleted, as are all before it
`

// Gone implements event.Forgetful.
func (l *Log) Gone(ctx context.Context) (id uint64, err error) {
	err = l.db.Read(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT gone FROM log", nil, func(row *sqlite.Stmt) error {
			id = uint64(row.ColumnInt64(0)) // written by us, positive
			return nil
		})
	})
	if err != nil {
		return 0, fmt.Errorf("read which events were deleted: %w", err)
	}
	return id, nil
}

// prune deletes events beyond MaxAge or MaxBytes.
func (l *Log) prune(ctx context.Context) {
	oldest := max(l.opts.Now().Add(-l.opts.MaxAge).UnixMilli(), 0) << eventlog.IDShift
	for range pruneMost {
		used, _, err := l.space(ctx)
		deleted := 0
		if err == nil {
			before := oldest
			if used > l.opts.MaxBytes {
				before = 1<<63 - 1
			}
			deleted, err = l.deleteOldest(ctx, before)
		}
		if err != nil {
			l.opts.Log.WarnContext(ctx, "old events could not be deleted", "error", err)
			return
		}
		if deleted < pruneRows {
			return
		}
		select {
		case <-l.stop:
			return
		default:
		}
	}
}

// makeRoom reports whether bytes may be written. While the disk is short of space they may only replace older events.
func (l *Log) makeRoom(ctx context.Context, bytes int64) (bool, error) {
	if l.opts.Free == nil || l.opts.Free() >= l.opts.MinFree+bytes {
		return true, nil
	}
	for range pruneMost {
		_, unused, err := l.space(ctx)
		if err != nil {
			return false, err
		}
		if unused >= 2*bytes { // rows and the index take more than the data alone
			return true, nil
		}
		n, err := l.deleteOldest(ctx, 1<<63-1)
		if err != nil || n == 0 {
			return false, err
		}
	}
	return false, nil
}

// space returns how many bytes of the file are in use and how many are not.
func (l *Log) space(ctx context.Context) (used, unused int64, err error) {
	err = l.db.Read(ctx, func(c *sqlite.Conn) error {
		var v [3]int64
		for i, pragma := range []string{"PRAGMA page_size", "PRAGMA page_count", "PRAGMA freelist_count"} {
			err := sqlitedb.Each(c, pragma, nil, func(row *sqlite.Stmt) error {
				v[i] = row.ColumnInt64(0)
				return nil
			})
			if err != nil {
				return err
			}
		}
		used, unused = (v[1]-v[2])*v[0], v[2]*v[0]
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("measure event log: %w", err)
	}
	return used, unused, nil
}

// deleteOldest deletes a slice of the chunks whose last event is older than an id.
func (l *Log) deleteOldest(ctx context.Context, before int64) (n int, err error) {
	err = l.db.DoBulk(ctx, pruneRows, func(c *sqlite.Conn) error {
		var gone int64
		n = 0
		err := sqlitedb.Each(c, "DELETE FROM chunk WHERE id IN (SELECT id FROM chunk WHERE id < ? ORDER BY id LIMIT ?) RETURNING id", []any{before, pruneRows}, func(row *sqlite.Stmt) error {
			gone = max(gone, row.ColumnInt64(0))
			n++
			return nil
		})
		if err != nil || n == 0 {
			return err
		}
		return sqlitedb.Each(c, "UPDATE log SET gone = max(gone, ?)", []any{gone}, nil)
	})
	if err != nil {
		return 0, fmt.Errorf("delete old events: %w", err)
	}
	return n, nil
}
