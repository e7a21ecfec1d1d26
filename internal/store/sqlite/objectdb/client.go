package objectdb

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/regs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// saveOp replaces a client's registrations.
type saveOp struct {
	s                 *Store
	id                objectstore.ClientID
	seenAt            time.Time
	objects, progress []byte // encoded; empty objects: the client has no registrations any more
	done              func(error)
	full              bool
}

// Save implements objectstore.Store. It encodes the registration here rather than on the writer's goroutine, for which all callers wait.
func (s *Store) Save(v *objectstore.Save) {
	op := &saveOp{s: s, id: v.ID, seenAt: v.SeenAt, done: v.Done}
	if len(v.Keys) > 0 {
		op.objects, op.progress = regs.EncodeKeys(v.ID.Group, v.Keys), regs.EncodeProgress(v.Progress)
	}
	s.db.Submit("", op)
}

// Size implements sqlitedb.Op.
func (op *saveOp) Size() (rows, bytes int) { return 2, 256 + len(op.objects) + len(op.progress) }

// Done implements sqlitedb.Op.
func (op *saveOp) Done(err error) {
	if err == nil && op.full {
		err = mailbox.ErrNoSpace
	}
	op.done(storeError("store registrations", err))
}

// Apply implements sqlitedb.Op.
func (op *saveOp) Apply(c *sqlite.Conn) error {
	if len(op.objects) == 0 {
		_, err := deleteClient(c, op.id, nil)
		return err
	}
	if op.full = op.s.space.Full(); op.full {
		return nil
	}
	op.s.any.Store(true)
	v := &op.id
	id, err := findClient(c, op.id)
	switch {
	case err != nil:
		return err
	case id == 0:
		err = sqlitedb.Each(c, "INSERT INTO client(app, recipient, grp, device, objects) VALUES (?, ?, ?, ?, ?)", []any{v.App, v.Recipient, v.Group, v.Device, op.objects}, nil)
		if err != nil {
			return err
		}
		return sqlitedb.Each(c, "INSERT INTO progress(client, seen_at, versions) VALUES (?, ?, ?)", []any{c.LastInsertRowID(), op.seenAt.UnixMilli(), op.progress}, nil)
	}
	if err := sqlitedb.Each(c, "UPDATE client SET objects = ?2 WHERE id = ?1 AND app = ?3", []any{id, op.objects, v.App}, nil); err != nil {
		return err
	}
	return sqlitedb.Each(c, "UPDATE progress SET seen_at = max(seen_at, ?2), versions = ?3 WHERE client = ?1", []any{id, op.seenAt.UnixMilli(), op.progress}, nil)
}

const ofClient = " WHERE app = ? AND recipient = ? AND grp = ? AND device = ?"

func findClient(c *sqlite.Conn, v objectstore.ClientID) (id int64, err error) {
	err = sqlitedb.Each(c, "SELECT id FROM client"+ofClient, []any{v.App, v.Recipient, v.Group, v.Device}, func(row *sqlite.Stmt) error { id = row.ColumnInt64(0); return nil })
	return id, err
}

// deleteClient deletes a client and reports whether it did. If before is not nil, it deletes only a client last seen before that time.
func deleteClient(c *sqlite.Conn, v objectstore.ClientID, before *time.Time) (bool, error) {
	id, err := findClient(c, v)
	if err != nil || id == 0 {
		return false, err
	}
	seenBefore := any(nil)
	if before != nil {
		seenBefore = before.UnixMilli()
	}
	err = sqlitedb.Each(c, "DELETE FROM progress WHERE client = ?1 AND (?2 IS NULL OR seen_at < ?2)", []any{id, seenBefore}, nil)
	if err != nil || c.Changes() == 0 {
		return false, err
	}
	return true, sqlitedb.Each(c, "DELETE FROM client WHERE id = ? AND app = ?", []any{id, v.App}, nil)
}

const selectClient = `SELECT client.id, app, recipient, grp, device, objects, seen_at, versions
	FROM client JOIN progress ON progress.client = client.id`

func readClient(row *sqlite.Stmt) (v objectstore.Saved, err error) {
	id := objectstore.ClientID{App: row.ColumnText(1), Recipient: row.ColumnText(2), Group: row.ColumnText(3), Device: row.ColumnText(4)}
	return regs.Client(id, columnBytes(row, 5), row.ColumnInt64(6), columnBytes(row, 7))
}

// Load implements objectstore.Store.
func (s *Store) Load(ctx context.Context, id objectstore.ClientID) (found *objectstore.Saved, err error) {
	if !s.any.Load() {
		return nil, nil
	}
	err = s.read(ctx, id.App, "read registrations", func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, selectClient+ofClient, []any{id.App, id.Recipient, id.Group, id.Device}, func(row *sqlite.Stmt) error {
			v, err := readClient(row)
			found = &v
			return err
		})
	})
	return found, err
}

// Clients implements objectstore.Store.
func (s *Store) Clients(ctx context.Context, app, recipient string) (found []objectstore.Saved, err error) {
	err = s.read(ctx, app, "read registrations", func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, selectClient+" WHERE app = ? AND recipient = ? ORDER BY grp, device", []any{app, recipient}, func(row *sqlite.Stmt) error {
			v, err := readClient(row)
			found = append(found, v)
			return err
		})
	})
	return found, err
}

// Watchers implements objectstore.Store. It scans all registrations: only people query an object's watchers, and an index would cost
// devices more than a scan costs these people.
func (s *Store) Watchers(ctx context.Context, app string, k object.Key, after int64, look int) (found []objectstore.Watcher, next int64, err error) {
	err = s.read(ctx, app, "read registrations", func(c *sqlite.Conn) error {
		seen := 0
		err := sqlitedb.Each(c, "SELECT id, instr(objects, ?3) FROM client WHERE app = ?1 AND id > ?2 ORDER BY id LIMIT ?4", []any{app, after, []byte(k.Object), look}, func(row *sqlite.Stmt) error {
			seen++
			next = row.ColumnInt64(0)
			if row.ColumnInt64(1) == 0 {
				return nil
			}
			w, ok, err := watcher(c, next, app, k)
			if ok {
				found = append(found, w)
			}
			return err
		})
		if seen < look {
			next = 0
		}
		return err
	})
	return found, next, err
}

// watcher reads one client and reports whether it is registered for the object.
func watcher(c *sqlite.Conn, id int64, app string, k object.Key) (w objectstore.Watcher, ok bool, err error) {
	err = sqlitedb.Each(c, selectClient+" WHERE client.id = ? AND app = ?", []any{id, app}, func(row *sqlite.Stmt) error {
		v, err := readClient(row)
		if err != nil {
			return err
		}
		w, ok = regs.Watcher(&v, k)
		return nil
	})
	return w, ok, err
}

// Away implements objectstore.Store.
func (s *Store) Away(ctx context.Context, before time.Time, limit int) (ids []objectstore.ClientID, err error) {
	err = s.read(ctx, "", "read registrations", func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, `SELECT app, recipient, grp, device FROM progress JOIN client ON client.id = progress.client
			WHERE seen_at < ? ORDER BY seen_at LIMIT ?`, []any{before.UnixMilli(), limit}, func(row *sqlite.Stmt) error {
			ids = append(ids, objectstore.ClientID{App: row.ColumnText(0), Recipient: row.ColumnText(1), Group: row.ColumnText(2), Device: row.ColumnText(3)})
			return nil
		})
	})
	return ids, err
}

// Drop implements objectstore.Store.
func (s *Store) Drop(ctx context.Context, ids []objectstore.ClientID, before time.Time) (n int, err error) {
	err = s.db.DoBulk(ctx, 2*len(ids), func(c *sqlite.Conn) error {
		n = 0
		for _, id := range ids {
			switch gone, err := deleteClient(c, id, &before); {
			case err != nil:
				return err
			case gone:
				n++
			}
		}
		return nil
	})
	return n, storeError("drop registrations", err)
}

// Erase implements objectstore.Store.
func (s *Store) Erase(ctx context.Context, app, recipient string) error {
	return storeError("erase registrations", s.db.Do(ctx, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "DELETE FROM progress WHERE client IN (SELECT id FROM client WHERE app = ? AND recipient = ?)", []any{app, recipient}, nil)
		if err != nil {
			return err
		}
		err = sqlitedb.Each(c, "DELETE FROM client WHERE app = ? AND recipient = ?", []any{app, recipient}, nil)
		if err != nil {
			return err
		}
		// The recipient's object versions stay, without its name.
		return sqlitedb.Each(c, "UPDATE object SET source = '' WHERE app = ?1 AND (source = ?2 OR substr(source, 1, length(?2) + 1) = ?2 || '/')", []any{app, recipient}, nil)
	}))
}

// eraseRows is how many rows one commit deletes, so that other operations wait a few milliseconds at most.
const eraseRows = 250

// EraseApp deletes all data of a deleted app, in slices of eraseRows.
func (s *Store) EraseApp(ctx context.Context, app string) error {
	for _, query := range []string{
		"DELETE FROM progress WHERE client IN (SELECT id FROM client WHERE app = ? AND id IN (SELECT client FROM progress) LIMIT ?)",
		"DELETE FROM client WHERE id IN (SELECT id FROM client WHERE app = ? LIMIT ?)",
		"DELETE FROM object WHERE (app, grp, name) IN (SELECT app, grp, name FROM object WHERE app = ? LIMIT ?)",
	} {
		for more := true; more; {
			err := s.db.DoBulk(ctx, eraseRows, func(c *sqlite.Conn) error {
				err := sqlitedb.Each(c, query, []any{app, eraseRows}, nil)
				more = c.Changes() == eraseRows
				return err
			})
			if err != nil {
				return storeError("erase objects of app "+app, err)
			}
		}
	}
	return nil
}

// Stats implements objectstore.Store.
func (s *Store) Stats(ctx context.Context) (objects, clients int64, err error) {
	err = s.read(ctx, "", "count objects", func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT (SELECT count(*) FROM object), (SELECT count(*) FROM client)", nil, func(row *sqlite.Stmt) error {
			objects, clients = row.ColumnInt64(0), row.ColumnInt64(1)
			return nil
		})
	})
	return objects, clients, err
}
