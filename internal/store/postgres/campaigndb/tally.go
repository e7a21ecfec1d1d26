package campaigndb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/store/campaignrow"
)

// tally collects changes of campaigns' counters, and writes them at the end of a transaction.
type tally struct{ campaignrow.Tally }

const (
	addCounts = `INSERT INTO campaign_count AS c (campaign, channel, what, n)
		SELECT campaign, channel, what, n FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::bigint[]) AS t(campaign, channel, what, n)
		ORDER BY campaign, channel, what
		ON CONFLICT (campaign, channel, what) DO UPDATE SET n = c.n + excluded.n`
	addDays = `INSERT INTO campaign_day AS d (app, day, campaign, what, n)
		SELECT c.app, $1, c.num, t.what, t.n FROM unnest($2::bigint[], $3::smallint[], $4::bigint[]) AS t(campaign, what, n)
		JOIN campaign c ON c.num = t.campaign ORDER BY c.app, c.num, t.what
		ON CONFLICT (app, day, campaign, what) DO UPDATE SET n = d.n + excluded.n`
)

// write adds the changes to the counters, and adds the deliveries that have ended to the day's counters.
func (t *tally) write(ctx context.Context, tx pgx.Tx, now time.Time) error {
	statements := &pgx.Batch{}
	if all := t.Changes(); len(all) > 0 {
		nums, channels, whats, ns := columnsOfChanges(all)
		statements.Queue(addCounts, nums, channels, whats, ns)
	}
	if ended := t.OfDay(); len(ended) > 0 {
		nums, _, whats, ns := columnsOfChanges(ended)
		statements.Queue(addDays, campaignrow.Day(now), nums, whats, ns)
	}
	if statements.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, statements).Close()
}

func columnsOfChanges(list []campaignrow.Change) (nums []int64, channels, whats []int16, ns []int64) {
	for _, c := range list {
		nums, channels, whats, ns = append(nums, c.Campaign), append(channels, c.Channel), append(whats, c.What), append(ns, c.By)
	}
	return nums, channels, whats, ns
}

// Figures implements campaign.Book.
func (s *Store) Figures(ctx context.Context, num int64) (*campaign.Figures, error) {
	f := campaignrow.NewFigures()
	err := s.db.Each(ctx, "count deliveries", "SELECT channel, what, n FROM campaign_count WHERE campaign = $1 AND n <> 0", []any{num}, func(rows pgx.Rows) error {
		var channel, what int16
		var n int64
		err := rows.Scan(&channel, &what, &n)
		campaignrow.Figure(f, channel, what, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Days implements campaign.Reports.
func (s *Store) Days(ctx context.Context, app string, num int64, from, to time.Time) (list []campaign.Day, err error) {
	const query = `SELECT day, what, sum(n)::bigint FROM campaign_day WHERE app = $1 AND day >= $2 AND day <= $3 AND ($4 = 0 OR campaign = $4)
		GROUP BY day, what ORDER BY day`
	err = s.db.Each(ctx, "read statistics", query, []any{app, campaignrow.Day(from), campaignrow.Day(to), num}, func(rows pgx.Rows) error {
		var number, n int64
		var what int16
		err := rows.Scan(&number, &what, &n)
		list = campaignrow.AddDay(list, number, what, n)
		return err
	})
	return list, err
}
