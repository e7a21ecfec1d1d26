package eventdb

import (
	"context"
	"errors"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/store/eventlog"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// Read returns events of an app after the id since; an id that was never assigned counts as the newest. If ctx ends first Read returns its
// error, and last is valid all the same. The events are shared: do not change them.
func (l *Log) Read(ctx context.Context, app string, since uint64, limit int, wait bool) (evs []event.Event, last uint64, err error) {
	return l.tails.Read(ctx, app, min(since, l.Last()), limit, wait, l.readFile)
}

// errPageFull ends a query early.
var errPageFull = errors.New("page is full")

// readFile reads events that are no longer in memory.
func (l *Log) readFile(ctx context.Context, app string, since uint64, limit int) (evs []event.Event, err error) {
	err = l.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		evs = nil
		var buf []byte
		err := sqlitedb.Each(c, "SELECT data, id FROM chunk WHERE app = ? AND id > ? ORDER BY id", []any{app, int64(since)}, func(row *sqlite.Stmt) error { // at most l.last
			if n := row.ColumnLen(0); cap(buf) < n {
				buf = make([]byte, n)
			}
			n := row.ColumnBytes(0, buf[:cap(buf)])
			all, err := eventlog.Decode(app, string(buf[:n]), uint64(row.ColumnInt64(1)))
			if err != nil {
				return err
			}
			if all = eventlog.After(all, since); evs == nil {
				evs = all // no copy: a page has few chunks
			} else {
				evs = append(evs, all...)
			}
			if len(evs) >= limit {
				return errPageFull
			}
			return nil
		})
		if errors.Is(err, errPageFull) {
			err = nil
		}
		return err
	})
	if errors.Is(err, sqlitedb.ErrClosed) {
		err = eventlog.ErrClosed
	}
	return evs[:min(len(evs), limit)], err
}
