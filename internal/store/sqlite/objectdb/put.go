package objectdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// putOp is one caller's changes.
type putOp struct {
	s     *Store
	batch []*objectstore.Put
	bytes int
	full  bool
	done  chan error
}

var _ sqlitedb.Op = (*putOp)(nil)

// Put implements objectstore.Store. Once a put is queued, Put waits for the commit, or makes it, even if ctx ends: the
// goroutine that commits writes the results.
func (s *Store) Put(ctx context.Context, batch []*objectstore.Put) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("store objects: %w", context.Cause(ctx))
	}
	op := &putOp{s: s, batch: batch, done: make(chan error, 1)}
	for _, p := range batch {
		op.bytes += 128 + len(p.Payload)
	}
	s.db.SubmitHere(batch[0].App, op) // a batch is of one app
	return storeError("store objects", <-op.done)
}

// Size implements sqlitedb.Op.
func (op *putOp) Size() (rows, bytes int) { return len(op.batch), op.bytes }

// Done implements sqlitedb.Op.
func (op *putOp) Done(err error) {
	if err == nil && op.full {
		err = mailbox.ErrNoSpace
	}
	op.done <- err
}

// Apply implements sqlitedb.Op. It may run again if the commit fails.
func (op *putOp) Apply(c *sqlite.Conn) error {
	if op.full = op.s.space.Full(); op.full {
		return nil
	}
	for _, p := range op.batch {
		if err := op.s.put(c, p); err != nil {
			return fmt.Errorf("object %s: %w", p.Key, err)
		}
	}
	return nil
}

const stateColumns = "version, known, updated_at, source, content_type, payload"

func (s *Store) put(c *sqlite.Conn, p *objectstore.Put) error {
	p.Changed, p.Err = false, nil
	old, err := state(c, p.App, p.Key)
	if err != nil {
		return err
	}
	p.State, p.Changed, p.Err = old.Apply(&p.Put, p.At)
	if p.Err != nil || !p.Changed {
		return nil
	}
	if old.Version == 0 { // nobody has put it
		s.added++
	}
	n := &p.State
	payload := n.Payload
	if payload == nil {
		payload = []byte{}
	}
	return sqlitedb.Each(c, "INSERT INTO object(app, grp, name, "+stateColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (app, grp, name) DO UPDATE SET version = excluded.version, known = excluded.known, updated_at = excluded.updated_at,
			source = excluded.source, content_type = excluded.content_type, payload = excluded.payload`, []any{p.App, p.Key.Group, p.Key.Object, int64(n.Version), n.Known, n.UpdatedAt.UnixMilli(), n.Origin.String(), n.ContentType, payload}, nil)
}

// changes appends the op's changes.
func (op *putOp) changes(to []objectstore.Change) []objectstore.Change {
	if op.full {
		return to
	}
	for _, p := range op.batch {
		if p.Changed {
			st := p.State
			to = append(to, objectstore.Change{App: p.App, Key: p.Key, State: &st})
		}
	}
	return to
}

// state reads one object; a zero state: it was never put.
func state(c *sqlite.Conn, app string, k object.Key) (st object.State, err error) {
	err = sqlitedb.Each(c, "SELECT "+stateColumns+" FROM object WHERE app = ? AND grp = ? AND name = ?", []any{app, k.Group, k.Object}, func(row *sqlite.Stmt) error {
		st, err = readState(row, 0)
		return err
	})
	return st, err
}

func readState(row *sqlite.Stmt, col int) (object.State, error) {
	source, err := object.ParseOrigin(row.ColumnText(col + 3))
	if err != nil {
		return object.State{}, fmt.Errorf("stored source is damaged: %w", err)
	}
	return object.State{
		Version: object.Version(row.ColumnInt64(col)), Known: row.ColumnBool(col + 1), UpdatedAt: fromMillis(row.ColumnInt64(col + 2)),
		Origin: source, ContentType: row.ColumnText(col + 4), Payload: columnBytes(row, col+5),
	}, nil
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, app string, keys []object.Key) ([]object.State, error) {
	out := make([]object.State, len(keys))
	err := s.read(ctx, app, "read objects", func(c *sqlite.Conn) (err error) {
		for i, k := range keys {
			if out[i], err = state(c, app, k); err != nil {
				return fmt.Errorf("object %s: %w", k, err)
			}
		}
		return nil
	})
	return out, err
}

// List implements objectstore.Store.
func (s *Store) List(ctx context.Context, app, group, prefix, after string, limit int) (items []objectstore.Item, err error) {
	// Names are ASCII, so those that begin with prefix end before prefix + "\x7f".
	err = s.read(ctx, app, "list objects", func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT name, "+stateColumns+` FROM object
			WHERE app = ?1 AND grp = ?2 AND name >= ?3 AND name < ?3 || char(127) AND name > ?4 ORDER BY name LIMIT ?5`, []any{app, group, prefix, after, limit}, func(row *sqlite.Stmt) error {
			st, err := readState(row, 1)
			items = append(items, objectstore.Item{Key: object.Key{Group: group, Object: row.ColumnText(0)}, State: st})
			return err
		})
	})
	return items, err
}

// Groups implements objectstore.Store. It steps from group to group along the key and skips the objects in them.
func (s *Store) Groups(ctx context.Context, app, after string, limit int) (groups []string, err error) {
	err = s.read(ctx, app, "list groups of objects", func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, `WITH RECURSIVE g(grp) AS (
			SELECT (SELECT grp FROM object WHERE app = ?1 AND grp > ?2 ORDER BY grp LIMIT 1)
			UNION ALL SELECT (SELECT o.grp FROM object o WHERE o.app = ?1 AND o.grp > g.grp ORDER BY o.grp LIMIT 1) FROM g WHERE g.grp IS NOT NULL
		) SELECT grp FROM g WHERE grp IS NOT NULL LIMIT ?3`, []any{app, after, limit}, func(row *sqlite.Stmt) error {
			groups = append(groups, row.ColumnText(0))
			return nil
		})
	})
	return groups, err
}
