package appsql

import (
	"context"
	"math"
	"time"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/store/sqltx"
)

const selectLogins = "SELECT id, app, key, subject, email, rules, role, since, seen, address, browser FROM stay"

// AddLogin stores a login, and deletes logins beyond the limits. It wakes no watchers: nobody caches logins.
func (s *Store) AddLogin(ctx context.Context, hash signin.Hash, st signin.Login, b signin.Bounds) error {
	return s.db.Note(ctx, st.App, "sign in", func(ctx context.Context, tx sqltx.Tx) error {
		if st.App != "" { // an operator belongs to no app
			if err := lockApp(ctx, tx, st.App); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "DELETE FROM stay WHERE app = $1 AND (since <= $2 OR seen <= $3)", st.App, b.Since.UnixMilli(), b.Seen.UnixMilli()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM stay WHERE hash IN (SELECT hash FROM stay WHERE app = $1 ORDER BY seen DESC, id LIMIT $2 OFFSET $3)", st.App, math.MaxInt32, b.Most-1)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO stay (hash, id, app, key, subject, email, rules, role, since, seen, address, browser) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
			hash[:], st.ID, st.App, st.Key, st.Subject, st.Email, st.Rules, int64(st.Role), st.Since.UnixMilli(), st.Seen.UnixMilli(), st.Address, st.Browser)
		return err
	})
}

// Login finds a login by its cookie.
func (s *Store) Login(ctx context.Context, hash signin.Hash) (signin.Login, error) {
	list, err := s.logins(ctx, selectLogins+" WHERE hash = $1", hash[:])
	if err == nil && len(list) == 0 {
		err = signin.ErrNoLogin
	}
	if err != nil {
		return signin.Login{}, err
	}
	return list[0], nil
}

// Logins lists at most most logins of an app, the last seen first.
func (s *Store) Logins(ctx context.Context, app string, most int) ([]signin.Login, error) {
	return s.logins(ctx, selectLogins+" WHERE app = $1 ORDER BY seen DESC, id LIMIT $2", app, most)
}

func (s *Store) logins(ctx context.Context, query string, args ...any) (list []signin.Login, err error) {
	err = s.db.Read(ctx, "read who is signed in", func(ctx context.Context, tx sqltx.Tx) (err error) {
		list, err = sqltx.Collect(ctx, tx, readLogin, query, args...)
		return err
	})
	return list, err
}

func readLogin(row sqltx.Row) (s signin.Login, err error) {
	var role, since, seen int64
	err = row.Scan(&s.ID, &s.App, &s.Key, &s.Subject, &s.Email, &s.Rules, &role, &since, &seen, &s.Address, &s.Browser)
	s.Role = signin.Role(role) // a small number, written by us
	s.Since, s.Seen = fromMillis(since), fromMillis(seen)
	return s, err
}

// SeeLogin records the time when a login was last seen.
func (s *Store) SeeLogin(ctx context.Context, hash signin.Hash, at time.Time) error {
	return s.db.Note(ctx, "", "note who is there", func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE stay SET seen = $1 WHERE hash = $2 AND seen < $1", at.UnixMilli(), hash[:])
		return err
	})
}

// EndLogins deletes logins of an app.
func (s *Store) EndLogins(ctx context.Context, app string, ids []string) (ended int, err error) {
	err = s.db.Note(ctx, app, "sign out", func(ctx context.Context, tx sqltx.Tx) error {
		ended = 0
		for _, id := range ids {
			n, err := tx.Exec(ctx, "DELETE FROM stay WHERE app = $1 AND id = $2", app, id)
			if err != nil {
				return err
			}
			ended += n
		}
		return nil
	})
	return ended, err
}
