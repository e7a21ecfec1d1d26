package appsql

import (
	"context"
	"math"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/store/sqltx"
)

// AddEntry adds an entry. It wakes no watchers: nobody caches the audit log.
func (s *Store) AddEntry(ctx context.Context, d *audit.Entry) error {
	return s.db.Note(ctx, d.App, "note "+d.Action, func(ctx context.Context, tx sqltx.Tx) error {
		query := `INSERT INTO deed (app, at, by, way, address, deed, object, outcome)
			SELECT name, $2, $3, $4, $5, $6, $7, $8 FROM app WHERE name = $1 RETURNING id`
		if d.App == "" {
			query = "INSERT INTO server_deed (app, at, by, way, address, deed, object, outcome) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id"
		}
		ids, err := sqltx.Collect(ctx, tx, sqltx.One[int64], query,
			d.App, d.At.UnixMilli(), d.By, d.Way, d.Address, d.Action, d.Object, string(d.Outcome))
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return unknown(d.App)
		}
		d.ID = ids[0]
		return nil
	})
}

// Entries lists an app's entries, newest first.
func (s *Store) Entries(ctx context.Context, app string, f audit.Filter, limit int) (list []audit.Entry, err error) {
	query, args := EntriesQuery(app, f, limit)
	err = s.db.Read(ctx, "read the audit log", func(ctx context.Context, tx sqltx.Tx) (err error) {
		list, err = sqltx.Collect(ctx, tx, readEntry, query, args...)
		return err
	})
	return list, err
}

// EntriesQuery returns a query with conditions only on the filter's non-empty fields, so that it can use an index. The condition on the
// action precedes that on the person.
func EntriesQuery(app string, f audit.Filter, limit int) (query string, args []any) {
	before, until := f.Before, int64(math.MaxInt64)
	if before == 0 {
		before = math.MaxInt64
	}
	if !f.Until.IsZero() {
		until = f.Until.UnixMilli()
	}
	query = "SELECT id, app, at, by, way, address, deed, object, outcome FROM " + deedsOf(app) + " WHERE app = $1 AND id < $2 AND at >= $3 AND at < $4"
	args = []any{app, before, f.Since.UnixMilli(), until}
	for _, c := range [][2]string{{"deed", f.Action}, {"by", f.By}} {
		if c[1] != "" {
			args = append(args, c[1])
			query += " AND " + c[0] + " = $" + strconv.Itoa(len(args))
		}
	}
	args = append(args, limit)
	return query + " ORDER BY id DESC LIMIT $" + strconv.Itoa(len(args)), args
}

func readEntry(row sqltx.Row) (d audit.Entry, err error) {
	var at int64
	var outcome string
	err = row.Scan(&d.ID, &d.App, &at, &d.By, &d.Way, &d.Address, &d.Action, &d.Object, &outcome)
	d.At, d.Outcome = fromMillis(at), audit.Outcome(outcome)
	return d, err
}

// deedsOf returns the table with the entries of an app; "" is the server.
func deedsOf(app string) string {
	if app == "" {
		return "server_deed"
	}
	return "deed"
}

// TrimEntries deletes an app's entries from before a time, and the oldest ones beyond most.
func (s *Store) TrimEntries(ctx context.Context, app string, before time.Time, most int) error {
	return s.db.Note(ctx, app, "forget old deeds", func(ctx context.Context, tx sqltx.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM "+deedsOf(app)+" WHERE app = $1 AND at < $2", app, before.UnixMilli()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM "+deedsOf(app)+" WHERE app = $1 AND id <= (SELECT id FROM "+deedsOf(app)+" WHERE app = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)", app, most)
		return err
	})
}

// RenameObject renames the object in an app's entries whose actions begin with a prefix.
func (s *Store) RenameObject(ctx context.Context, app, actions, from, to string) error {
	return s.db.Note(ctx, app, "rename "+actions+" in the audit log", func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE deed SET object = $4 WHERE app = $1 AND object = $3 AND substr(deed, 1, length(CAST($2 AS text))) = $2", app, actions, from, to)
		return err
	})
}
