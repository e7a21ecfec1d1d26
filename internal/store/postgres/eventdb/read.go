package eventdb

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/store/eventlog"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// readChunks is the number of chunks read at once: at most 1 MB.
const readChunks = 16

// Read returns events of an app after id since. Ids that were never assigned count as the newest. If ctx ends first, Read returns its
// error, and last is still valid. Callers share the events and must not change them.
func (l *Log) Read(ctx context.Context, app string, since uint64, limit int, wait bool) (evs []event.Event, last uint64, err error) {
	within := lookEvery
	if since > l.tails.Committed() { // the id may be from another node, which has newer events
		within = 0
	}
	if err := l.look(ctx, within); err != nil {
		return nil, since, l.known(err)
	}
	return l.tails.Read(ctx, app, min(since, l.tails.Committed()), limit, wait, l.readStored)
}

// readStored reads events that are no longer in memory.
func (l *Log) readStored(ctx context.Context, app string, since uint64, limit int) (evs []event.Event, err error) {
	if err := l.places.Enter(ctx, app); err != nil {
		return nil, err
	}
	defer l.places.Leave(app)
	for from := since; len(evs) < limit; {
		n := 0
		rows, err := l.db.Pool().Query(ctx, "SELECT id, data FROM chunk WHERE app = $1 AND id > $2 ORDER BY id LIMIT $3", app, int64(from), readChunks) // at most the newest
		if err != nil {
			return nil, l.known(pgdb.Error("read events", err))
		}
		var id int64
		var data []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &data}, func() error {
			n++
			from = uint64(id) // positive
			all, err := eventlog.Decode(app, string(data), from)
			evs = append(evs, eventlog.After(all, since)...)
			return err
		})
		if err != nil {
			return nil, l.known(pgdb.Error("read events", err))
		}
		if n < readChunks {
			break
		}
	}
	return evs[:min(len(evs), limit)], nil
}

// known converts database errors to the log's own.
func (l *Log) known(err error) error {
	select {
	case <-l.closing:
		return errors.Join(eventlog.ErrClosed, err)
	default:
	}
	return l.db.Known(err)
}
