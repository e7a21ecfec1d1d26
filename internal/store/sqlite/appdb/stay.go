package appdb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ signin.StayStore = (*Store)(nil)

const stayTable = `
CREATE TABLE stay (
	hash    BLOB PRIMARY KEY, -- SHA-256 of the cookie's secret
	id      TEXT NOT NULL,
	app     TEXT NOT NULL,
	key     TEXT NOT NULL,    -- empty: a provider of OpenID Connect vouches
	subject TEXT NOT NULL,
	email   TEXT NOT NULL,
	rules   TEXT NOT NULL,
	role    INTEGER NOT NULL,
	since   INTEGER NOT NULL, -- milliseconds
	seen    INTEGER NOT NULL,
	address TEXT NOT NULL,
	browser TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX stay_app ON stay(app, seen);
`

const selectStays = "SELECT id, app, key, subject, email, rules, role, since, seen, address, browser FROM stay"

// AddStay keeps a stay, and forgets what is out of bounds.
func (s *Store) AddStay(ctx context.Context, hash signin.Hash, st signin.Stay, b signin.Bounds) error {
	return s.db.Do(ctx, func(c *sqlite.Conn) error {
		if err := haveApp(c, st.App); err != nil {
			return err
		}
		if err := sqlitedb.Each(c, "DELETE FROM stay WHERE since <= ? OR seen <= ?", []any{millis(b.Since), millis(b.Seen)}, nil); err != nil {
			return err
		}
		err := sqlitedb.Each(c, "DELETE FROM stay WHERE hash IN (SELECT hash FROM stay WHERE app = ? ORDER BY seen DESC, id LIMIT -1 OFFSET ?)", []any{st.App, b.Most - 1}, nil)
		if err != nil {
			return err
		}
		return sqlitedb.Each(c, "INSERT INTO stay(hash, id, app, key, subject, email, rules, role, since, seen, address, browser) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			[]any{hash[:], st.ID, st.App, st.Key, st.Subject, st.Email, st.Rules, int64(st.Role), millis(st.Since), millis(st.Seen), st.Address, st.Browser}, nil)
	})
}

// Stay finds a stay by its cookie.
func (s *Store) Stay(ctx context.Context, hash signin.Hash) (signin.Stay, error) {
	list, err := s.stays(ctx, selectStays+" WHERE hash = ?", hash[:])
	if err == nil && len(list) == 0 {
		err = signin.ErrNoStay
	}
	if err != nil {
		return signin.Stay{}, err
	}
	return list[0], nil
}

// Stays lists an app's, last seen first.
func (s *Store) Stays(ctx context.Context, app string, most int) ([]signin.Stay, error) {
	return s.stays(ctx, selectStays+" WHERE app = ? ORDER BY seen DESC, id LIMIT ?", app, most)
}

func (s *Store) stays(ctx context.Context, query string, args ...any) (list []signin.Stay, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, query, args, func(row *sqlite.Stmt) error {
			list = append(list, signin.Stay{
				ID: row.ColumnText(0),
				Person: signin.Person{
					App: row.ColumnText(1), Key: row.ColumnText(2), Subject: row.ColumnText(3), Email: row.ColumnText(4), Rules: row.ColumnText(5),
					Role: signin.Role(row.ColumnInt64(6)), //nolint:gosec // a small number, written by us
				},
				Since: fromMillis(row.ColumnInt64(7)), Seen: fromMillis(row.ColumnInt64(8)), Address: row.ColumnText(9), Browser: row.ColumnText(10),
			})
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read app store: %w", err)
	}
	return list, nil
}

// SeeStay notes when a stay was last seen.
func (s *Store) SeeStay(ctx context.Context, hash signin.Hash, at time.Time) error {
	return s.db.Do(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "UPDATE stay SET seen = max(seen, ?) WHERE hash = ?", []any{millis(at), hash[:]}, nil)
	})
}

// EndStays forgets stays of an app.
func (s *Store) EndStays(ctx context.Context, app string, ids []string) (n int, err error) {
	err = s.db.Do(ctx, func(c *sqlite.Conn) error {
		n = 0
		for _, id := range ids {
			if err := sqlitedb.Each(c, "DELETE FROM stay WHERE app = ? AND id = ?", []any{app, id}, nil); err != nil {
				return err
			}
			n += c.Changes()
		}
		return nil
	})
	return n, err
}
