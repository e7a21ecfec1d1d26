package campaigndb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// tally collects changes of campaigns' counters and writes them at the end of a transaction.
type tally struct{ campaignrow.Tally }

// write adds the changes to the campaigns' counters, and adds ended deliveries to the day's counters.
func (t *tally) write(c *sqlite.Conn, now time.Time) error {
	for _, k := range t.Changes() {
		err := sqlitedb.Each(c, `INSERT INTO campaign_count(campaign, channel, what, n) VALUES (?, ?, ?, ?)
			ON CONFLICT (campaign, channel, what) DO UPDATE SET n = n + excluded.n`, []any{k.Campaign, k.Channel, k.What, k.By}, nil)
		if err != nil {
			return err
		}
	}
	for _, k := range t.OfDay() {
		err := sqlitedb.Each(c, `INSERT INTO campaign_day(app, day, campaign, what, n) SELECT app, ?, num, ?, ? FROM campaign WHERE num = ?
			ON CONFLICT (app, day, campaign, what) DO UPDATE SET n = n + excluded.n`, []any{campaignrow.Day(now), k.What, k.By, k.Campaign}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// Figures implements campaign.Book.
func (s *Store) Figures(ctx context.Context, num int64) (*campaign.Figures, error) {
	f := campaignrow.NewFigures()
	err := s.db.ReadFor(ctx, s.owner(num), func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT channel, what, n FROM campaign_count WHERE campaign = ? AND n <> 0", []any{num}, func(row *sqlite.Stmt) error {
			campaignrow.Figure(f, int16Of(row, 0), int16Of(row, 1), row.ColumnInt64(2))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count deliveries: %w", known(err))
	}
	return f, nil
}

// Days implements campaign.Reports.
func (s *Store) Days(ctx context.Context, app string, num int64, from, to time.Time) (list []campaign.Day, err error) {
	query, args := "SELECT day, what, sum(n) FROM campaign_day WHERE app = ? AND day >= ? AND day <= ?", []any{app, campaignrow.Day(from), campaignrow.Day(to)}
	if num != 0 {
		query, args = query+" AND campaign = ?", append(args, num)
	}
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, query+" GROUP BY day, what ORDER BY day", args, func(row *sqlite.Stmt) error {
			list = campaignrow.AddDay(list, row.ColumnInt64(0), int16Of(row, 1), row.ColumnInt64(2))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read statistics: %w", known(err))
	}
	return list, nil
}

// int16Of reads a number that this package wrote as 16 bits.
func int16Of(row *sqlite.Stmt, column int) int16 { return int16(row.ColumnInt64(column)) }
