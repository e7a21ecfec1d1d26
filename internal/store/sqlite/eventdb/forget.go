package eventdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/eventlog"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// forgetChunks is how many chunks one commit rewrites: at most 1 MB.
const forgetChunks = 16

// ForgetRecipient deletes a recipient's events, in slices, also those that wait to be written. New events are written between them.
func (l *Log) ForgetRecipient(ctx context.Context, app, recipient string) error {
	l.queue.FlushSoon(ctx)
	defer l.tails.Forget(app)
	for since := int64(0); ; {
		chunks, upto, err := l.chunksOf(ctx, app, recipient, since)
		if err == nil && len(chunks) > 0 {
			err = l.db.DoBulkFor(ctx, app, len(chunks), func(c *sqlite.Conn) error { return replace(c, chunks) })
		}
		if err != nil {
			return fmt.Errorf("delete events of an erased recipient: %w", err)
		}
		if upto == since {
			return nil
		}
		since = upto
	}
}

// EraseApp deletes all events of a deleted app, in slices, also those that wait to be written. The progress of its hooks and sinks stays,
// since it contains no names.
func (l *Log) EraseApp(ctx context.Context, app string) error {
	l.queue.FlushSoon(ctx)
	defer l.tails.Forget(app)
	for more := true; more; {
		err := l.db.DoBulkFor(ctx, app, forgetChunks, func(c *sqlite.Conn) error {
			err := sqlitedb.Each(c, "DELETE FROM chunk WHERE id IN (SELECT id FROM chunk WHERE app = ? LIMIT ?)", []any{app, forgetChunks}, nil)
			more = c.Changes() == forgetChunks
			return err
		})
		if err != nil {
			return fmt.Errorf("delete events of app %s: %w", app, err)
		}
	}
	return nil
}

// rewritten replaces the chunk with its id.
type rewritten struct {
	id   int64
	left *eventlog.Chunk
}

// chunksOf reads the next slice of an app's chunks after an id. It returns those with events of a recipient, without these events.
func (l *Log) chunksOf(ctx context.Context, app, recipient string, since int64) (found []rewritten, upto int64, err error) {
	err = l.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		found, upto = nil, since
		return sqlitedb.Each(c, "SELECT id, data FROM chunk WHERE app = ? AND id > ? ORDER BY id LIMIT ?", []any{app, since, forgetChunks}, func(row *sqlite.Stmt) error {
			upto = row.ColumnInt64(0)
			data := make([]byte, row.ColumnLen(1))
			row.ColumnBytes(1, data)
			left, err := eventlog.Without(app, string(data), uint64(upto), recipient, true) // written by us, positive
			if left != nil {
				found = append(found, rewritten{upto, left})
			}
			return err
		})
	})
	return found, upto, err
}

// replace stores rewritten chunks, unless they were pruned meanwhile. A chunk's id is that of its last event.
func replace(c *sqlite.Conn, chunks []rewritten) error {
	var packer eventlog.Packer
	for _, r := range chunks {
		query, args := "DELETE FROM chunk WHERE id = ?", []any{r.id}
		if r.left.N > 0 {
			query, args = "UPDATE chunk SET id = ?, data = ? WHERE id = ?", []any{int64(r.left.Last), packer.Pack(r.left.Data), r.id} // see insert
		}
		if err := sqlitedb.Each(c, query, args, nil); err != nil {
			return err
		}
	}
	return nil
}
