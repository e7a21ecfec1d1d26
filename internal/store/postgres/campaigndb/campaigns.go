package campaigndb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

var _ campaign.Store = (*Store)(nil)

// scanCampaign reads campaignrow.Columns.
func scanCampaign(rows pgx.Rows) (*campaign.Campaign, error) {
	c := &campaign.Campaign{}
	var spec, channels []byte
	var sendAt, createdAt, startedAt, finishedAt int64
	err := rows.Scan(&c.Num, &c.ID, &c.App, &c.State, &c.Detail, &spec, &channels, &sendAt, &createdAt, &startedAt, &finishedAt,
		&c.Enumerated, &c.Cursor, &c.Recall, &c.RecallFrom)
	if err != nil {
		return nil, err
	}
	c.SendAt, c.CreatedAt, c.StartedAt, c.FinishedAt = millis.Time(sendAt), millis.Time(createdAt), millis.Time(startedAt), millis.Time(finishedAt)
	return c, campaignrow.ReadJSON(c, spec, channels)
}

// campaignsWhere reads the campaigns that meet a condition.
func campaignsWhere(ctx context.Context, q pgdb.Querier, where string, args ...any) (list []*campaign.Campaign, err error) {
	err = pgdb.Each(ctx, q, "SELECT "+campaignrow.Columns+" FROM campaign WHERE "+where, args, func(rows pgx.Rows) error {
		c, err := scanCampaign(rows)
		list = append(list, c)
		return err
	})
	return list, err
}

func campaignWhere(ctx context.Context, q pgdb.Querier, where string, args ...any) (*campaign.Campaign, error) {
	list, err := campaignsWhere(ctx, q, where, args...)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, campaign.ErrNotFound
	}
	return list[0], nil
}

// Insert implements campaign.Book. Of two concurrent requests with one key, the second waits until the first has committed.
func (s *Store) Insert(ctx context.Context, c *campaign.Campaign, idem string, body [32]byte) (first *campaign.Campaign, err error) {
	spec, channels, err := campaignrow.JSON(c)
	if err != nil {
		return nil, fmt.Errorf("store campaign: %w", err)
	}
	err = s.do(ctx, "store campaign", func(ctx context.Context, tx pgx.Tx) error {
		if idem != "" {
			if first, err = madeBefore(ctx, tx, c.App, idem, body, s.now()); first != nil || err != nil {
				return err
			}
		}
		err := tx.QueryRow(ctx, `INSERT INTO campaign(id, app, state, detail, spec, channels, send_at, created_at, started_at, finished_at,
			enumerated, cursor, recall, recall_from) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, false, 0, 0, '') RETURNING num`,
			c.ID, c.App, string(c.State), text(c.Detail), spec, channels, millis.Of(c.SendAt), millis.Of(c.CreatedAt), millis.Of(c.StartedAt), millis.Of(c.FinishedAt)).Scan(&c.Num)
		if err != nil || idem == "" {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE campaign_key SET campaign = $3, body = $4, at = $5 WHERE app = $1 AND name = $2", c.App, idem, c.Num, body[:], millis.Of(s.now()))
		return err
	})
	return first, err
}

// Made implements campaign.Book.
func (s *Store) Made(ctx context.Context, app, idem string, body [32]byte) (first *campaign.Campaign, err error) {
	err = s.do(ctx, "look for the campaign of an idempotency key", func(ctx context.Context, tx pgx.Tx) error {
		first, err = madeBefore(ctx, tx, app, idem, body, s.now())
		return err
	})
	return first, err
}

// madeBefore finds the campaign that an idempotency key created within KeyLife, and locks the key.
func madeBefore(ctx context.Context, tx pgx.Tx, app, idem string, body [32]byte, now time.Time) (first *campaign.Campaign, err error) {
	if _, err := tx.Exec(ctx, "DELETE FROM campaign_key WHERE at < $1 AND at > 0", millis.Of(now.Add(-campaignrow.KeyLife))); err != nil {
		return nil, err
	}
	var num int64
	var used []byte
	// The row exists afterwards; its campaign number is 0 until the campaign is inserted.
	err = tx.QueryRow(ctx, `INSERT INTO campaign_key AS k (app, name, campaign, body, at) VALUES ($1, $2, 0, '', 0)
		ON CONFLICT (app, name) DO UPDATE SET at = k.at RETURNING campaign, body`, app, idem).Scan(&num, &used)
	switch {
	case err != nil || num == 0:
		return nil, err
	case string(used) != string(body[:]):
		return nil, campaign.ErrReused
	}
	first, err = campaignWhere(ctx, tx, "num = $1", num)
	if errors.Is(err, campaign.ErrNotFound) {
		return nil, nil // the campaign was deleted since: the key creates another
	}
	return first, err
}

// Get implements campaign.Book.
func (s *Store) Get(ctx context.Context, app, id string) (*campaign.Campaign, error) {
	c, err := campaignWhere(ctx, s.db.Pool(), "app = $1 AND id = $2", app, id)
	if err != nil && !errors.Is(err, campaign.ErrNotFound) {
		err = fmt.Errorf("read campaign %s: %w", id, s.db.Known(err))
	}
	return c, err
}

// list reads campaigns.
func (s *Store) list(ctx context.Context, where string, args ...any) ([]*campaign.Campaign, error) {
	list, err := campaignsWhere(ctx, s.db.Pool(), where, args...)
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", s.db.Known(err))
	}
	return list, nil
}

// List implements campaign.Book.
func (s *Store) List(ctx context.Context, app string, limit int, cursor int64) ([]*campaign.Campaign, error) {
	if cursor <= 0 {
		cursor = 1<<63 - 1
	}
	return s.list(ctx, "app = $1 AND num < $2 ORDER BY num DESC LIMIT $3", app, cursor, limit)
}

// Waiting implements campaign.Queue.
func (s *Store) Waiting(ctx context.Context) (apps []string, err error) {
	err = s.db.Each(ctx, "list apps with campaigns", "SELECT app FROM campaign WHERE "+campaignrow.Busy+` UNION
		SELECT c.app FROM delivery d JOIN campaign c ON c.num = d.campaign WHERE d.outcome = 1`, nil, func(rows pgx.Rows) error {
		var app string
		err := rows.Scan(&app)
		apps = append(apps, app)
		return err
	})
	return apps, err
}

// Busy implements campaign.Book.
func (s *Store) Busy(ctx context.Context, app string) ([]*campaign.Campaign, error) {
	return s.list(ctx, "app = $1 AND "+campaignrow.Busy+" ORDER BY num", app)
}

// Unbegun implements campaign.Book.
func (s *Store) Unbegun(ctx context.Context, app string) ([]*campaign.Campaign, error) {
	return s.list(ctx, "app = $1 AND "+campaignrow.Unbegun+" ORDER BY num", app)
}

// Since implements campaign.Limits.
func (s *Store) Since(ctx context.Context, app string, since time.Time) ([]*campaign.Campaign, error) {
	return s.list(ctx, "app = $1 AND started_at > 0 AND (finished_at = 0 OR finished_at > $2) ORDER BY num", app, millis.Of(since))
}

// Change implements campaign.Book.
func (s *Store) Change(ctx context.Context, app, id string, change func(*campaign.Campaign) error) (c *campaign.Campaign, err error) {
	err = s.do(ctx, "change campaign "+id, func(ctx context.Context, tx pgx.Tx) error {
		if c, err = campaignWhere(ctx, tx, "app = $1 AND id = $2 FOR UPDATE", app, id); err != nil {
			return err
		}
		if err := change(c); err != nil {
			return err
		}
		spec, channels, err := campaignrow.JSON(c)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE campaign SET spec = $2, state = $3, detail = $4, channels = $5, send_at = $6, started_at = $7, finished_at = $8, recall = $9,
			recall_from = $10 WHERE num = $1`,
			c.Num, spec, string(c.State), text(c.Detail), channels, millis.Of(c.SendAt), millis.Of(c.StartedAt), millis.Of(c.FinishedAt), c.Recall, string(c.RecallFrom))
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Remove implements campaign.Book.
func (s *Store) Remove(ctx context.Context, num int64, limit int) (done bool, err error) {
	err = s.do(ctx, "delete campaign", func(ctx context.Context, tx pgx.Tx) error {
		// The campaign is locked before its deliveries, in the same order as in writers of deliveries; so the statements below see the
		// writers' changes.
		if _, err := tx.Exec(ctx, "SELECT FROM campaign WHERE num = $1 FOR UPDATE", num); err != nil {
			return err
		}
		gone, err := tx.Exec(ctx, `DELETE FROM delivery WHERE campaign = $1 AND endpoint IN
			(SELECT endpoint FROM delivery WHERE campaign = $1 ORDER BY endpoint LIMIT $2 FOR UPDATE)`, num, limit)
		if err != nil {
			return err
		}
		if done = gone.RowsAffected() < int64(limit); !done {
			return nil
		}
		for _, table := range campaignrow.OfCampaign() {
			if _, err := tx.Exec(ctx, "DELETE FROM "+table+" = $1", num); err != nil {
				return err
			}
		}
		return nil
	})
	return done && err == nil, err
}

// Endpoints implements campaign.Store.
func (s *Store) Endpoints(ctx context.Context, app string, ids []audience.ID) (list []audience.Endpoint, err error) {
	keys := make([][]byte, len(ids))
	for i := range ids {
		keys[i] = ids[i][:]
	}
	err = s.db.Each(ctx, "read endpoints", "SELECT "+endpointrow.Columns+" FROM endpoint e WHERE e.app = $1 AND e.id = ANY($2)", []any{app, keys}, func(rows pgx.Rows) error {
		e, err := scanEndpoint(rows)
		list = append(list, e)
		return err
	})
	return list, err
}

// EnsureLive creates an endpoint of channel live for recipients without one, so that a campaign can name them.
func (s *Store) EnsureLive(ctx context.Context, app string, recipients []string) error {
	if len(recipients) == 0 {
		return nil
	}
	reached := make(map[string]bool, len(recipients))
	err := s.db.Each(ctx, "look for endpoints of recipients", `SELECT e.recipient FROM endpoint e
		WHERE e.app = $1 AND e.recipient = ANY($2) AND e.recipient <> '' AND e.channel = 'live'`, []any{app, recipients}, func(rows pgx.Rows) error {
		var name string
		err := rows.Scan(&name)
		reached[name] = true
		return err
	})
	if err != nil {
		return err
	}
	var missing []audience.Registration
	for _, name := range recipients {
		if reached[name] {
			continue
		}
		reached[name] = true
		e := audience.Endpoint{ID: audience.NewID(s.now()), App: app, Channel: push.Live, Recipient: name}
		if err := e.Check(); err != nil {
			return err
		}
		missing = append(missing, audience.Registration{Endpoint: e, Trusted: true})
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = s.Register(ctx, app, missing)
	return err
}
