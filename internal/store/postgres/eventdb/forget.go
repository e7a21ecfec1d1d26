package eventdb

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/eventlog"
)

// forgetChunks is the number of chunks rewritten in one transaction: at most some megabytes.
const forgetChunks = 64

// ForgetRecipient deletes a recipient's events, in slices, also those that wait here to be written.
func (l *Log) ForgetRecipient(ctx context.Context, app, recipient string) error {
	l.queue.FlushSoon(ctx)
	defer l.tails.Forget(app)
	for since, more := int64(0), true; more; {
		err := l.db.Do(ctx, "delete events of an erased recipient", func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "SELECT id, data FROM chunk WHERE app = $1 AND id > $2 ORDER BY id LIMIT $3", app, since, forgetChunks)
			if err != nil {
				return err
			}
			left := map[int64]*eventlog.Chunk{}
			var id int64
			var data []byte
			found := 0
			if _, err := pgx.ForEachRow(rows, []any{&id, &data}, func() error {
				found++
				c, err := eventlog.Without(app, string(data), uint64(id), recipient, false) // positive
				if c != nil {
					left[id] = c
				}
				return err
			}); err != nil {
				return err
			}
			if more = found == forgetChunks; found > 0 {
				since = id
			}
			return replace(ctx, tx, left)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// EraseApp deletes all events of a deleted app, in slices, also those that wait here to be written.
func (l *Log) EraseApp(ctx context.Context, app string) error {
	l.queue.FlushSoon(ctx)
	defer l.tails.Forget(app)
	for more := true; more; {
		err := l.db.Do(ctx, "delete events of an erased app", func(ctx context.Context, tx pgx.Tx) error {
			var n, bytes int64
			err := tx.QueryRow(ctx, `WITH gone AS (
					DELETE FROM chunk WHERE id IN (SELECT id FROM chunk WHERE app = $1 ORDER BY id LIMIT $2) RETURNING octet_length(data) AS bytes
				) SELECT count(*), coalesce(sum(bytes), 0) FROM gone`, app, forgetChunks).Scan(&n, &bytes)
			if err == nil {
				err = less(ctx, tx, bytes)
			}
			more = n == forgetChunks
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// less subtracts bytes from the sum over all chunks.
func less(ctx context.Context, tx pgx.Tx, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, "UPDATE head SET bytes = bytes - $1", bytes)
	return err
}

// replace stores the remaining parts of chunks, unless these were pruned meanwhile. A chunk has the id of its last event.
func replace(ctx context.Context, tx pgx.Tx, left map[int64]*eventlog.Chunk) error {
	var saved int64
	for _, id := range slices.Sorted(maps.Keys(left)) {
		c := left[id]
		query, args := "DELETE FROM chunk WHERE id = $1 RETURNING octet_length(data)", []any{id}
		if c.N > 0 {
			query = `WITH old AS (SELECT octet_length(data) AS bytes FROM chunk WHERE id = $1 FOR UPDATE)
				UPDATE chunk SET id = $2, data = $3 FROM old WHERE id = $1 RETURNING old.bytes - octet_length(data)`
			args = append(args, int64(c.Last), c.Data) // positive
		}
		var bytes int64
		err := tx.QueryRow(ctx, query, args...).Scan(&bytes)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		saved += bytes
	}
	return less(ctx, tx, saved)
}
