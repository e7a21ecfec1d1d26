package eventdb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/eventlog"
)

// forgetChunks are rewritten in one transaction: at most some megabytes.
const forgetChunks = 64

// ForgetRecipient deletes a recipient's events, in slices.
func (l *Log) ForgetRecipient(ctx context.Context, app, recipient string) error {
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
				c, err := eventlog.Without(app, string(data), uint64(id), recipient, false) //nolint:gosec // positive
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

// replace stores what is left of chunks, unless they were pruned meanwhile. A chunk has the id of its last event.
func replace(ctx context.Context, tx pgx.Tx, left map[int64]*eventlog.Chunk) error {
	for id, c := range left {
		query, args := "DELETE FROM chunk WHERE id = $1", []any{id}
		if c.N > 0 {
			query, args = "UPDATE chunk SET id = $2, data = $3 WHERE id = $1", []any{id, int64(c.Last), c.Data} //nolint:gosec // positive
		}
		if _, err := tx.Exec(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}
