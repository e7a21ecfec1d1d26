package appdb

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/access/audit"
)

var _ audit.Store = (*Store)(nil)

// AddDeed keeps a deed. The version stays as it is: nobody keeps a copy of deeds.
func (s *Store) AddDeed(ctx context.Context, d *audit.Deed) error {
	return s.db.Known(s.db.Do(ctx, "note "+d.Deed, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `INSERT INTO deed (app, at, by, way, address, deed, object, outcome)
			SELECT name, $2, $3, $4, $5, $6, $7, $8 FROM app WHERE name = $1 RETURNING id`,
			d.App, d.At.UnixMilli(), d.By, d.Way, d.Address, d.Deed, d.Object, string(d.Outcome)).Scan(&d.ID)
		if errors.Is(err, pgx.ErrNoRows) {
			return unknown(d.App)
		}
		return err
	}))
}

// Deeds lists an app's, newest first.
func (s *Store) Deeds(ctx context.Context, app string, f audit.Filter, limit int) (list []audit.Deed, err error) {
	before, until := f.Before, int64(math.MaxInt64)
	if before == 0 {
		before = math.MaxInt64
	}
	if !f.Until.IsZero() {
		until = f.Until.UnixMilli()
	}
	query, args := deedsQuery(f), []any{app, before, f.Since.UnixMilli(), until, limit}
	args = append(args, named(f)...)
	err = s.db.Read(ctx, "read the audit log", func(ctx context.Context, tx pgx.Tx) (err error) {
		list, err = collect(ctx, tx, readDeed, query, args...)
		return err
	})
	return list, err
}

// deedsQuery has conditions only on the fields that the filter names, so that an index can be used. The
// deed comes before the person.
func deedsQuery(f audit.Filter) string {
	query := "SELECT id, app, at, by, way, address, deed, object, outcome FROM deed WHERE app = $1 AND id < $2 AND at >= $3 AND at < $4"
	place := 6
	if f.Deed != "" {
		query += " AND deed = $" + strconv.Itoa(place)
		place++
	}
	if f.By != "" {
		query += " AND by = $" + strconv.Itoa(place)
	}
	return query + " ORDER BY id DESC LIMIT $5"
}

func readDeed(row pgx.CollectableRow) (d audit.Deed, err error) {
	var at int64
	var outcome string
	err = row.Scan(&d.ID, &d.App, &at, &d.By, &d.Way, &d.Address, &d.Deed, &d.Object, &outcome)
	d.At, d.Outcome = fromMillis(at), audit.Outcome(outcome)
	return d, err
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
	return s.db.Known(s.db.Do(ctx, "forget old deeds", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM deed WHERE app = $1 AND at < $2", app, before.UnixMilli()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM deed WHERE app = $1 AND id <= (SELECT id FROM deed WHERE app = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)", app, most)
		return err
	}))
}

// RenameObject gives the object of an app's deeds whose names begin so another name.
func (s *Store) RenameObject(ctx context.Context, app, deeds, from, to string) error {
	return s.db.Known(s.db.Do(ctx, "rename "+deeds+" in the audit log", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE deed SET object = $4 WHERE app = $1 AND object = $3 AND starts_with(deed, $2)", app, deeds, from, to)
		return err
	}))
}
