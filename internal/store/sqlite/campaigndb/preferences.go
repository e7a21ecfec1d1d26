package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ preference.Store = (*Store)(nil)

// Preferences implements preference.Store.
func (s *Store) Preferences(ctx context.Context, app string, recipients []string) (said map[string]preference.Preferences, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		said = make(map[string]preference.Preferences)
		for _, r := range recipients {
			err := sqlitedb.Each(c, "SELECT said FROM preference WHERE app = ? AND recipient = ?", []any{app, r}, func(row *sqlite.Stmt) error {
				var p preference.Preferences
				err := json.Unmarshal([]byte(row.ColumnText(0)), &p)
				said[r] = p
				return err
			})
			if err != nil {
				return fmt.Errorf("of %s: %w", r, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read preferences: %w", known(err))
	}
	return said, nil
}

// SetPreferences implements preference.Store.
func (s *Store) SetPreferences(ctx context.Context, app, recipient string, p *preference.Preferences) error {
	if p.IsZero() {
		_, err := s.erasePreferences(ctx, app, recipient)
		return err
	}
	if err := s.checkSpace(); err != nil {
		return err
	}
	said, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode preferences of %s: %w", recipient, err)
	}
	err = s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "INSERT INTO preference(app, recipient, said) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET said = excluded.said", []any{app, recipient, string(said)}, nil)
	})
	if err != nil {
		return fmt.Errorf("store preferences of %s: %w", recipient, known(err))
	}
	return nil
}

// erasePreferences deletes a recipient's preferences, and reports whether there were any.
func (s *Store) erasePreferences(ctx context.Context, app, recipient string) (some bool, err error) {
	err = s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "DELETE FROM preference WHERE app = ? AND recipient = ?", []any{app, recipient}, nil)
		some = c.Changes() > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("erase preferences of %s: %w", recipient, known(err))
	}
	return some, nil
}

// eraseBegun deletes the record of steps that have begun for a recipient.
func (s *Store) eraseBegun(ctx context.Context, app, recipient string) error {
	for more := true; more; {
		err := s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
			err := sqlitedb.Each(c, `DELETE FROM step_begun WHERE app = ?1 AND recipient = ?2 AND (category, id) IN
				(SELECT category, id FROM step_begun WHERE app = ?1 AND recipient = ?2 LIMIT 500)`, []any{app, recipient}, nil)
			more = c.Changes() == 500
			return err
		})
		if err != nil {
			return fmt.Errorf("erase which steps have begun for %s: %w", recipient, known(err))
		}
	}
	return nil
}

// Begin implements preference.Store. It works also without free space, since the notification was accepted already.
func (s *Store) Begin(ctx context.Context, app string, steps []preference.Begun, now time.Time) (may []bool, err error) {
	err = s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		may = make([]bool, len(steps))
		for i := range steps {
			if may[i], err = begin(c, app, &steps[i], now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count steps that begin: %w", known(err))
	}
	return may, nil
}

func begin(c *sqlite.Conn, app string, b *preference.Begun, now time.Time) (may bool, err error) {
	since := millis.Of(now.Add(-b.Limit.Per))
	args := []any{app, b.Recipient, b.Category, since}
	if err := sqlitedb.Each(c, "DELETE FROM step_begun WHERE app = ? AND recipient = ? AND category = ? AND at <= ?", args, nil); err != nil {
		return false, err
	}
	n := 0
	err = sqlitedb.Each(c, "SELECT id = ? FROM step_begun WHERE app = ? AND recipient = ? AND category = ?", []any{b.ID[:], app, b.Recipient, b.Category}, func(row *sqlite.Stmt) error {
		n++
		may = may || row.ColumnBool(0)
		return nil
	})
	if err != nil || may || n >= b.Limit.Count {
		return may, err
	}
	return true, sqlitedb.Each(c, "INSERT INTO step_begun(app, recipient, category, id, at) VALUES (?, ?, ?, ?, ?)", []any{app, b.Recipient, b.Category, b.ID[:], millis.Of(now)}, nil)
}

// PruneBegun implements preference.Store.
func (s *Store) PruneBegun(ctx context.Context, now time.Time, limit int) (more bool, err error) {
	err = s.db.DoBulk(ctx, limit, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, `DELETE FROM step_begun WHERE (app, recipient, category, id) IN
			(SELECT app, recipient, category, id FROM step_begun INDEXED BY step_begun_at WHERE at <= ? LIMIT ?)`,
			[]any{millis.Of(now.Add(-preference.MaxPer)), limit}, nil)
		more = c.Changes() == limit
		return err
	})
	if err != nil {
		return false, fmt.Errorf("forget which steps have begun: %w", known(err))
	}
	return more, nil
}

// eraseNamed removes a recipient from the audiences of an app's campaigns.
func (s *Store) eraseNamed(ctx context.Context, app, recipient string) error {
	err := s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		specs := map[int64]string{}
		err := sqlitedb.Each(c, "SELECT num, spec FROM campaign WHERE app = ? AND instr(spec, ?) > 0", []any{app, recipient}, func(row *sqlite.Stmt) error {
			spec, named, err := campaignrow.WithoutRecipient(row.ColumnText(1), recipient)
			if named {
				specs[row.ColumnInt64(0)] = spec
			}
			return err
		})
		for num, spec := range specs {
			if err == nil {
				err = sqlitedb.Each(c, "UPDATE campaign SET spec = ? WHERE num = ?", []any{spec, num}, nil)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("take %s out of audiences: %w", recipient, known(err))
	}
	return nil
}
