package eventdb

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/event"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// maxPage bounds one answer, whatever limit is asked for.
const maxPage = 10_000

// Read returns events of an app after id since. Ids that were never given out count as the newest. When ctx ends
// first it returns its error, and last is valid all the same. The events are shared: do not change them.
func (l *Log) Read(ctx context.Context, app string, since uint64, limit int, wait bool) (evs []event.Event, last uint64, err error) {
	since = min(since, l.Last())
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	for {
		v := l.tails.look(app, since)
		switch {
		case v.closed:
			return nil, since, ErrClosed
		case !v.inMemory:
			evs, err := l.readFile(ctx, app, since, limit)
			if err != nil {
				return nil, since, fmt.Errorf("read events of %s: %w", app, err)
			}
			if len(evs) > 0 {
				return evs, lastOf(evs, limit, v.committed), nil
			}
			// A follower from here on is served from memory, unless that has moved on already.
			since = max(since, v.committed)
			if !wait {
				return nil, since, nil
			}
		case len(v.chunks) > 0:
			evs := page(v.chunks, since, limit)
			return evs, lastOf(evs, limit, v.committed), nil
		case !wait:
			return nil, max(since, v.committed), nil
		default:
			select {
			case <-v.news:
			case <-ctx.Done():
				return nil, max(since, v.committed), context.Cause(ctx)
			}
		}
	}
}

// lastOf is how far a reader has come: to the end of a full page, else to all that was committed when it looked.
func lastOf(evs []event.Event, limit int, committed uint64) uint64 {
	last := evs[len(evs)-1].ID
	if len(evs) < limit {
		last = max(last, committed)
	}
	return last
}

func page(chunks []*chunk, since uint64, limit int) []event.Event {
	first := after(chunks[0].decoded(), since)
	if len(chunks) == 1 || len(first) >= limit {
		return first[:min(limit, len(first)):min(limit, len(first))]
	}
	evs := make([]event.Event, 0, limit)
	evs = append(evs, first...)
	for _, c := range chunks[1:] {
		if len(evs) == limit {
			break
		}
		next := c.decoded()
		evs = append(evs, next[:min(len(next), limit-len(evs))]...)
	}
	return evs
}

// errPageFull ends a query early.
var errPageFull = errors.New("page is full")

func (l *Log) readFile(ctx context.Context, app string, since uint64, limit int) (evs []event.Event, err error) {
	err = l.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		evs = nil
		var buf []byte
		err := sqlitedb.Each(c, "SELECT data FROM chunk WHERE app = ? AND id > ? ORDER BY id", []any{app, int64(since)}, func(row *sqlite.Stmt) error { //nolint:gosec // at most l.last
			if n := row.ColumnLen(0); cap(buf) < n {
				buf = make([]byte, n)
			}
			n := row.ColumnBytes(0, buf[:cap(buf)])
			all, err := decode(app, string(buf[:n]), nil)
			if err != nil {
				return err
			}
			evs = append(evs, after(all, since)...)
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
		err = ErrClosed
	}
	return evs[:min(len(evs), limit)], err
}
