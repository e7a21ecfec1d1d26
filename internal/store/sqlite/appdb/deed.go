package appdb

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ audit.Store = (*Store)(nil)

const deedTable = `
CREATE TABLE deed (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	app     TEXT NOT NULL,
	at      INTEGER NOT NULL, -- milliseconds
	by      TEXT NOT NULL,
	way     TEXT NOT NULL,
	address TEXT NOT NULL,
	deed    TEXT NOT NULL,
	object  TEXT NOT NULL,
	outcome TEXT NOT NULL
) STRICT;
CREATE INDEX deed_app ON deed(app, id);
`

const deedIndexes = `
CREATE INDEX deed_deed ON deed(app, deed, id);
CREATE INDEX deed_by ON deed(app, by, id);
`

// AddDeed keeps a deed. The version stays as it is: nobody keeps a copy of deeds.
func (s *Store) AddDeed(ctx context.Context, d *audit.Deed) error {
	return s.db.DoFor(ctx, d.App, func(c *sqlite.Conn) error {
		if err := haveApp(c, d.App); err != nil {
			return err
		}
		err := sqlitedb.Each(c, "INSERT INTO deed(app, at, by, way, address, deed, object, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			[]any{d.App, millis(d.At), d.By, d.Way, d.Address, d.Deed, d.Object, string(d.Outcome)}, nil)
		d.ID = c.LastInsertRowID()
		return err
	})
}

// Deeds lists an app's, newest first.
func (s *Store) Deeds(ctx context.Context, app string, f audit.Filter, limit int) (list []audit.Deed, err error) {
	before, until := f.Before, int64(math.MaxInt64)
	if before == 0 {
		before = math.MaxInt64
	}
	if !f.Until.IsZero() {
		until = millis(f.Until)
	}
	query, args := deedsQuery(f), []any{app, before, millis(f.Since), until, limit}
	args = append(args, named(f)...)
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, query, args, func(row *sqlite.Stmt) error {
			list = append(list, audit.Deed{
				ID: row.ColumnInt64(0), App: row.ColumnText(1), At: fromMillis(row.ColumnInt64(2)), By: row.ColumnText(3), Way: row.ColumnText(4),
				Address: row.ColumnText(5), Deed: row.ColumnText(6), Object: row.ColumnText(7), Outcome: audit.Outcome(row.ColumnText(8)),
			})
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read app store: %w", err)
	}
	return list, nil
}

// deedsQuery has conditions only on the fields that the filter names, so that an index can be used. The
// deed comes before the person.
func deedsQuery(f audit.Filter) string {
	query := "SELECT id, app, at, by, way, address, deed, object, outcome FROM deed WHERE app = ?1 AND id < ?2 AND at >= ?3 AND at < ?4"
	place := 6
	if f.Deed != "" {
		query += " AND deed = ?" + strconv.Itoa(place)
		place++
	}
	if f.By != "" {
		query += " AND by = ?" + strconv.Itoa(place)
	}
	return query + " ORDER BY id DESC LIMIT ?5"
}

// named are the arguments of deedsQuery for the fields that the filter names.
func named(f audit.Filter) (args []any) {
	for _, text := range []string{f.Deed, f.By} {
		if text != "" {
			args = append(args, text)
		}
	}
	return args
}

// TrimDeeds forgets an app's that are older, and the oldest beyond so many.
func (s *Store) TrimDeeds(ctx context.Context, app string, before time.Time, most int) error {
	return s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "DELETE FROM deed WHERE app = ? AND at < ?", []any{app, millis(before)}, nil)
		if err != nil {
			return err
		}
		return sqlitedb.Each(c, "DELETE FROM deed WHERE app = ?1 AND id <= (SELECT id FROM deed WHERE app = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)", []any{app, most}, nil)
	})
}

// RenameObject gives the object of an app's deeds whose names begin so another name.
func (s *Store) RenameObject(ctx context.Context, app, deeds, from, to string) error {
	return s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "UPDATE deed SET object = ?4 WHERE app = ?1 AND object = ?3 AND substr(deed, 1, length(?2)) = ?2", []any{app, deeds, from, to}, nil)
	})
}
