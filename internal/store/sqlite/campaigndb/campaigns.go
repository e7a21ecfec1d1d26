package campaigndb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ campaign.Store = (*Store)(nil)

// readCampaign reads campaignrow.Columns.
func readCampaign(row *sqlite.Stmt) (*campaign.Campaign, error) {
	c := &campaign.Campaign{
		Num: row.ColumnInt64(0), ID: row.ColumnText(1), App: row.ColumnText(2), State: campaign.State(row.ColumnText(3)),
		Detail: row.ColumnText(4), SendAt: millis.Time(row.ColumnInt64(7)), CreatedAt: millis.Time(row.ColumnInt64(8)),
		StartedAt: millis.Time(row.ColumnInt64(9)), FinishedAt: millis.Time(row.ColumnInt64(10)), Enumerated: row.ColumnInt64(11) == 1,
		Cursor: row.ColumnInt64(12), Recall: row.ColumnInt64(13), RecallFrom: campaign.State(row.ColumnText(14)),
	}
	return c, campaignrow.ReadJSON(c, []byte(row.ColumnText(5)), []byte(row.ColumnText(6)))
}

// campaignsWhere reads the campaigns that meet a condition.
func campaignsWhere(c *sqlite.Conn, where string, args ...any) (list []*campaign.Campaign, err error) {
	err = sqlitedb.Each(c, "SELECT "+campaignrow.Columns+" FROM campaign WHERE "+where, args, func(row *sqlite.Stmt) error {
		one, err := readCampaign(row)
		list = append(list, one)
		return err
	})
	return list, err
}

func campaignWhere(c *sqlite.Conn, where string, args ...any) (*campaign.Campaign, error) {
	list, err := campaignsWhere(c, where, args...)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, campaign.ErrNotFound
	}
	return list[0], nil
}

// Insert implements campaign.Book.
func (s *Store) Insert(ctx context.Context, c *campaign.Campaign, idem string, body [32]byte) (first *campaign.Campaign, err error) {
	if err := s.checkSpace(); err != nil {
		return nil, fmt.Errorf("store campaign: %w", err)
	}
	spec, channels, err := campaignrow.JSON(c)
	if err != nil {
		return nil, fmt.Errorf("store campaign: %w", err)
	}
	err = s.db.DoFor(ctx, c.App, func(conn *sqlite.Conn) error {
		if idem != "" {
			if first, err = madeBefore(conn, c.App, idem, body, s.now()); first != nil || err != nil {
				return err
			}
		}
		err := sqlitedb.Each(conn, `INSERT INTO campaign(id, app, state, detail, spec, channels, send_at, created_at, started_at, finished_at,
			enumerated, cursor, recall, recall_from) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, '')`,
			[]any{
				c.ID, c.App, string(c.State), c.Detail, spec, channels, millis.Of(c.SendAt), millis.Of(c.CreatedAt), millis.Of(c.StartedAt),
				millis.Of(c.FinishedAt),
			}, nil)
		if err != nil {
			return err
		}
		c.Num = conn.LastInsertRowID()
		if idem == "" {
			return nil
		}
		return sqlitedb.Each(conn, "INSERT OR REPLACE INTO campaign_key(app, name, campaign, body, at) VALUES (?, ?, ?, ?, ?)",
			[]any{c.App, idem, c.Num, body[:], millis.Of(s.now())}, nil)
	})
	if err != nil && !errors.Is(err, campaign.ErrReused) {
		err = fmt.Errorf("store campaign: %w", known(err))
	}
	return first, err
}

// Made implements campaign.Book.
func (s *Store) Made(ctx context.Context, app, idem string, body [32]byte) (first *campaign.Campaign, err error) {
	err = s.db.DoFor(ctx, app, func(conn *sqlite.Conn) error {
		first, err = madeBefore(conn, app, idem, body, s.now())
		return err
	})
	if err != nil && !errors.Is(err, campaign.ErrReused) {
		err = fmt.Errorf("look for the campaign of an idempotency key: %w", known(err))
	}
	return first, err
}

// madeBefore returns the campaign that was created with an idempotency key while the key is valid.
func madeBefore(c *sqlite.Conn, app, idem string, body [32]byte, now time.Time) (first *campaign.Campaign, err error) {
	if err := sqlitedb.Each(c, "DELETE FROM campaign_key WHERE at < ?", []any{millis.Of(now.Add(-campaignrow.KeyLife))}, nil); err != nil {
		return nil, err
	}
	var num int64
	var used [32]byte
	err = sqlitedb.Each(c, "SELECT campaign, body FROM campaign_key WHERE app = ? AND name = ?", []any{app, idem}, func(row *sqlite.Stmt) error {
		num = row.ColumnInt64(0)
		row.ColumnBytes(1, used[:])
		return nil
	})
	switch {
	case err != nil || num == 0:
		return nil, err
	case used != body:
		return nil, campaign.ErrReused
	}
	first, err = campaignWhere(c, "num = ?", num)
	if errors.Is(err, campaign.ErrNotFound) {
		return nil, nil // the campaign was deleted since, so the key creates another one
	}
	return first, err
}

// Get implements campaign.Book.
func (s *Store) Get(ctx context.Context, app, id string) (c *campaign.Campaign, err error) {
	err = s.db.ReadFor(ctx, app, func(conn *sqlite.Conn) error {
		c, err = campaignWhere(conn, "app = ? AND id = ?", app, id)
		return err
	})
	if err != nil && !errors.Is(err, campaign.ErrNotFound) {
		err = fmt.Errorf("read campaign %s: %w", id, known(err))
	}
	return c, err
}

// List implements campaign.Book.
func (s *Store) List(ctx context.Context, app string, limit int, cursor int64) (list []*campaign.Campaign, err error) {
	if cursor <= 0 {
		cursor = 1<<63 - 1
	}
	err = s.db.ReadFor(ctx, app, func(conn *sqlite.Conn) error {
		list, err = campaignsWhere(conn, "app = ? AND num < ? ORDER BY num DESC LIMIT ?", app, cursor, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", known(err))
	}
	return list, nil
}

// owner returns the app of a campaign, which decides whose turn its operations take; empty until the campaign was read.
func (s *Store) owner(num int64) string {
	app, _ := s.owners.Load(num)
	name, _ := app.(string)
	return name
}

// Waiting implements campaign.Queue.
func (s *Store) Waiting(ctx context.Context) (apps []string, err error) {
	err = s.db.Read(ctx, func(conn *sqlite.Conn) error {
		apps = nil
		return sqlitedb.Each(conn, "SELECT app FROM campaign WHERE "+campaignrow.Busy+` UNION
			SELECT c.app FROM delivery d INDEXED BY delivery_sending JOIN campaign c ON c.num = d.campaign WHERE d.outcome = 1`, nil, func(row *sqlite.Stmt) error {
			apps = append(apps, row.ColumnText(0))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list apps with campaigns: %w", known(err))
	}
	return apps, nil
}

// Busy implements campaign.Book.
func (s *Store) Busy(ctx context.Context, app string) (list []*campaign.Campaign, err error) {
	err = s.db.ReadFor(ctx, app, func(conn *sqlite.Conn) error {
		list, err = campaignsWhere(conn, "app = ? AND "+campaignrow.Busy+" ORDER BY num", app)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", known(err))
	}
	for _, c := range list {
		s.owners.Store(c.Num, c.App)
	}
	return list, nil
}

// Unbegun implements campaign.Book.
func (s *Store) Unbegun(ctx context.Context, app string) (list []*campaign.Campaign, err error) {
	err = s.db.ReadFor(ctx, app, func(conn *sqlite.Conn) error {
		list, err = campaignsWhere(conn, "app = ? AND "+campaignrow.Unbegun+" ORDER BY num", app)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", known(err))
	}
	return list, nil
}

// Since implements campaign.Limits.
func (s *Store) Since(ctx context.Context, app string, since time.Time) (list []*campaign.Campaign, err error) {
	err = s.db.ReadFor(ctx, app, func(conn *sqlite.Conn) error {
		list, err = campaignsWhere(conn, "app = ? AND started_at > 0 AND (finished_at = 0 OR finished_at > ?) ORDER BY num", app, millis.Of(since))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", known(err))
	}
	return list, nil
}

// Change implements campaign.Book.
func (s *Store) Change(ctx context.Context, app, id string, change func(*campaign.Campaign) error) (c *campaign.Campaign, err error) {
	var refused error
	err = s.db.DoFor(ctx, app, func(conn *sqlite.Conn) error {
		refused = nil
		if c, err = campaignWhere(conn, "app = ? AND id = ?", app, id); err != nil {
			refused = err
			return err
		}
		if refused = change(c); refused != nil {
			return refused
		}
		spec, channels, err := campaignrow.JSON(c)
		if err != nil {
			return err
		}
		return sqlitedb.Each(conn, `UPDATE campaign SET spec = ?, state = ?, detail = ?, channels = ?, send_at = ?, started_at = ?, finished_at = ?, recall = ?,
			recall_from = ? WHERE num = ?`,
			[]any{
				spec, string(c.State), c.Detail, channels, millis.Of(c.SendAt), millis.Of(c.StartedAt), millis.Of(c.FinishedAt), c.Recall,
				string(c.RecallFrom), c.Num,
			}, nil)
	})
	if err != nil && refused == nil {
		err = fmt.Errorf("change campaign %s: %w", id, known(err))
	}
	if err != nil {
		return nil, err
	}
	s.owners.Store(c.Num, c.App)
	return c, nil
}

// Remove implements campaign.Book.
func (s *Store) Remove(ctx context.Context, num int64, limit int) (done bool, err error) {
	err = s.db.DoBulkFor(ctx, s.owner(num), limit, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "DELETE FROM delivery WHERE campaign = ? AND endpoint IN (SELECT endpoint FROM delivery WHERE campaign = ? LIMIT ?)",
			[]any{num, num, limit}, nil)
		if err != nil {
			return err
		}
		if done = c.Changes() < limit; !done {
			return nil
		}
		for _, table := range campaignrow.OfCampaign() {
			if err := sqlitedb.Each(c, "DELETE FROM "+table+" = ?", []any{num}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, known(err)
	}
	if done {
		s.owners.Delete(num)
	}
	return done, nil
}

// Endpoints implements campaign.Store.
func (s *Store) Endpoints(ctx context.Context, app string, ids []audience.ID) (list []audience.Endpoint, err error) {
	for _, id := range ids {
		e, err := s.Endpoint(ctx, app, id)
		switch {
		case err == nil:
			list = append(list, e)
		case !errors.Is(err, audience.ErrNotFound):
			return nil, err
		}
	}
	return list, nil
}

// EnsureLive creates an endpoint of channel live for recipients without one, so that a campaign can name them.
func (s *Store) EnsureLive(ctx context.Context, app string, recipients []string) error {
	var missing []audience.Registration
	for _, name := range recipients {
		found := false
		err := s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
			return sqlitedb.Each(c, "SELECT 1 FROM endpoint e WHERE e.app = ? AND e.recipient = ? AND e.recipient <> '' AND e.channel = 'live'",
				[]any{app, name}, func(*sqlite.Stmt) error { found = true; return nil })
		})
		if err != nil {
			return fmt.Errorf("look for endpoints of %s: %w", name, known(err))
		}
		if !found {
			e := audience.Endpoint{ID: audience.NewID(s.now()), App: app, Channel: push.Live, Recipient: name}
			if err := e.Check(); err != nil {
				return err
			}
			missing = append(missing, audience.Registration{Endpoint: e, Trusted: true})
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err := s.Register(ctx, app, missing)
	return err
}
