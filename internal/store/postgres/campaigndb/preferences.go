package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

var _ preference.Store = (*Store)(nil)

// Preferences implements preference.Store.
func (s *Store) Preferences(ctx context.Context, app string, recipients []string) (map[string]preference.Preferences, error) {
	said := make(map[string]preference.Preferences)
	const query = "SELECT recipient, said FROM preference WHERE app = $1 AND recipient = ANY($2)"
	err := s.db.Each(ctx, "read preferences", query, []any{app, recipients}, func(rows pgx.Rows) error {
		var recipient, text string
		if err := rows.Scan(&recipient, &text); err != nil {
			return err
		}
		var p preference.Preferences
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return fmt.Errorf("of %s: %w", recipient, err)
		}
		said[recipient] = p
		return nil
	})
	return said, err
}

// SetPreferences implements preference.Store.
func (s *Store) SetPreferences(ctx context.Context, app, recipient string, p *preference.Preferences) error {
	if p.IsZero() {
		_, err := s.erasePreferences(ctx, app, recipient)
		return err
	}
	said, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode preferences of %s: %w", recipient, err)
	}
	return s.do(ctx, "store preferences of "+recipient, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO preference(app, recipient, said) VALUES ($1, $2, $3)
			ON CONFLICT (app, recipient) DO UPDATE SET said = excluded.said`, app, recipient, string(said))
		return err
	})
}

// erasePreferences deletes a recipient's preferences, and reports whether there were any.
func (s *Store) erasePreferences(ctx context.Context, app, recipient string) (some bool, err error) {
	err = s.do(ctx, "erase preferences of "+recipient, func(ctx context.Context, tx pgx.Tx) error {
		done, err := tx.Exec(ctx, "DELETE FROM preference WHERE app = $1 AND recipient = $2", app, recipient)
		some = done.RowsAffected() > 0
		return err
	})
	return some, err
}

// eraseBegun deletes the record of steps that have begun for a recipient.
func (s *Store) eraseBegun(ctx context.Context, app, recipient string) error {
	return s.do(ctx, "erase which steps have begun for "+recipient, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM step_begun WHERE app = $1 AND recipient = $2", app, recipient)
		return err
	})
}

// begunLock is the first half of the advisory lock for counting steps of an app: "GwSt".
const begunLock = 0x47775374

func (s *Store) begunKey(app string) int32 {
	h := fnv.New32a()
	h.Write([]byte(s.db.Schema() + "\x00" + app))
	return int32(h.Sum32()) // any number will do
}

// counter is the recipient and category for which a limit counts steps together.
type counter struct{ recipient, category string }

// Begin implements preference.Store.
func (s *Store) Begin(ctx context.Context, app string, steps []preference.Begun, now time.Time) (may []bool, err error) {
	recipients, categories, since := make([]string, len(steps)), make([]string, len(steps)), make([]int64, len(steps))
	for i := range steps {
		recipients[i], categories[i], since[i] = steps[i].Recipient, steps[i].Category, millis.Of(now.Add(-steps[i].Limit.Per))
	}
	err = s.do(ctx, "count steps that begin", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", int32(begunLock), s.begunKey(app)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM step_begun b USING unnest($2::text[], $3::text[], $4::bigint[]) v(recipient, category, since)
			WHERE b.app = $1 AND b.recipient = v.recipient AND b.category = v.category AND b.at <= v.since`, app, recipients, categories, since)
		if err != nil {
			return err
		}
		begun := make(map[counter]map[[16]byte]bool)
		const query = `SELECT recipient, category, id FROM step_begun WHERE app = $1 AND (recipient, category) IN
			(SELECT * FROM unnest($2::text[], $3::text[]))`
		err = pgdb.Each(ctx, tx, query, []any{app, recipients, categories}, func(rows pgx.Rows) error {
			var k counter
			var id []byte
			if err := rows.Scan(&k.recipient, &k.category, &id); err != nil {
				return err
			}
			if begun[k] == nil {
				begun[k] = make(map[[16]byte]bool)
			}
			begun[k][[16]byte(id)] = true
			return nil
		})
		if err != nil {
			return err
		}
		may = make([]bool, len(steps))
		var fresh begunColumns
		for i := range steps {
			b := &steps[i]
			k := counter{b.Recipient, b.Category}
			if begun[k] == nil {
				begun[k] = make(map[[16]byte]bool)
			}
			counted := begun[k][b.ID]
			if may[i] = counted || len(begun[k]) < b.Limit.Count; may[i] && !counted {
				begun[k][b.ID] = true
				fresh.add(b)
			}
		}
		_, err = tx.Exec(ctx, "INSERT INTO step_begun(app, recipient, category, id, at) SELECT $1, v.*, $5 FROM unnest($2::text[], $3::text[], $4::bytea[]) v",
			app, fresh.recipients, fresh.categories, fresh.ids, millis.Of(now))
		return err
	})
	return may, err
}

// begunColumns are steps as arrays.
type begunColumns struct {
	recipients, categories []string
	ids                    [][]byte
}

func (c *begunColumns) add(b *preference.Begun) {
	c.recipients, c.categories, c.ids = append(c.recipients, b.Recipient), append(c.categories, b.Category), append(c.ids, b.ID[:])
}

// PruneBegun implements preference.Store.
func (s *Store) PruneBegun(ctx context.Context, now time.Time, limit int) (more bool, err error) {
	err = s.do(ctx, "forget which steps have begun", func(ctx context.Context, tx pgx.Tx) error {
		done, err := tx.Exec(ctx, `DELETE FROM step_begun WHERE (app, recipient, category, id) IN
			(SELECT app, recipient, category, id FROM step_begun WHERE at <= $1 ORDER BY at LIMIT $2)`, millis.Of(now.Add(-preference.MaxPer)), limit)
		more = done.RowsAffected() == int64(limit)
		return err
	})
	return more, err
}

// eraseNamed removes a recipient from the audiences of an app's campaigns.
func (s *Store) eraseNamed(ctx context.Context, app, recipient string) error {
	return s.do(ctx, "take "+recipient+" out of audiences", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "SELECT num, spec FROM campaign WHERE app = $1 AND strpos(spec, $2) > 0 ORDER BY num FOR UPDATE", app, recipient)
		if err != nil {
			return err
		}
		type named struct {
			num  int64
			spec string
		}
		var list []named
		var n named
		if _, err := pgx.ForEachRow(rows, []any{&n.num, &n.spec}, func() error {
			list = append(list, n)
			return nil
		}); err != nil {
			return err
		}
		for _, n := range list {
			spec, ok, err := campaignrow.WithoutRecipient(n.spec, recipient)
			if ok {
				_, err = tx.Exec(ctx, "UPDATE campaign SET spec = $2 WHERE num = $1", n.num, spec)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
