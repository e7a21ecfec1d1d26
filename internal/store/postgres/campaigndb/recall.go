package campaigndb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// Recallable implements campaign.RecallQueue.
func (s *Store) Recallable(ctx context.Context, num, from int64, limit int) (sent []campaign.Target, next int64, err error) {
	sent, err = s.targets(ctx, "SELECT "+targetColumns+` FROM delivery d LEFT JOIN endpoint e ON e.number = d.endpoint
		WHERE d.campaign = $1 AND d.endpoint > $2 AND d.outcome IN (2, 6) ORDER BY d.endpoint LIMIT $3`, num, from, limit)
	if err != nil {
		return nil, 0, err
	}
	if len(sent) == limit {
		next = sent[limit-1].Row
	}
	return sent, next, nil
}

// FinishRecall implements campaign.RecallQueue.
func (s *Store) FinishRecall(ctx context.Context, epoch, num int64, results []campaign.RecallResult, next int64, now time.Time) error {
	rows, done, details := make([]int64, len(results)), make([]bool, len(results)), make([]string, len(results))
	for i := range results {
		rows[i], done[i], details[i] = results[i].Row, results[i].Done, text(results[i].Detail)
	}
	const query = `WITH d AS (
			SELECT endpoint, outcome, flags FROM delivery WHERE campaign = $1 AND endpoint = ANY($2) AND outcome IN (2, 6) ORDER BY endpoint FOR UPDATE)
		UPDATE delivery u SET outcome = CASE WHEN r.done THEN 7 ELSE u.outcome END, flags = CASE WHEN r.done THEN u.flags & ~16 ELSE u.flags | 16 END,
			detail = r.detail, at = CASE WHEN r.done THEN $3 ELSE u.at END
		FROM d JOIN (SELECT DISTINCT ON (endpoint) * FROM unnest($2::bigint[], $4::boolean[], $5::text[]) AS r(endpoint, done, detail)) r ON r.endpoint = d.endpoint
		WHERE u.campaign = $1 AND u.endpoint = d.endpoint RETURNING u.channel, d.outcome, d.flags, d.flags & 16 <> 0, r.done`
	return s.do(ctx, "store what was recalled", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE campaign SET recall = $2 WHERE num = $1", num, next); err != nil {
			return err
		}
		if _, err := checkOwner(ctx, tx, num, epoch); err != nil {
			return err
		}
		var t tally
		err := pgdb.Each(ctx, tx, query, []any{num, rows, millis.Of(now), done, details}, func(rows pgx.Rows) error {
			var channel, was int16
			var refused, done bool
			var flags int32
			if err := rows.Scan(&channel, &was, &flags, &refused, &done); err != nil {
				return err
			}
			switch {
			case done:
				t.MoveOf(num, channel, flags, campaign.Outcome(was), campaign.TakenBack) // written by us
				if refused {
					t.Add(num, channel, campaignrow.Unrecalled, -1)
				}
			case !refused:
				t.Add(num, channel, campaignrow.Unrecalled, 1)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return t.write(ctx, tx, now)
	})
}

// FinishCorrection implements campaign.RecallQueue.
func (s *Store) FinishCorrection(ctx context.Context, epoch, num int64, results []campaign.RecallResult, from, next int64, now time.Time) error {
	rows, done, details := make([]int64, len(results)), make([]bool, len(results)), make([]string, len(results))
	for i := range results {
		rows[i], done[i], details[i] = results[i].Row, results[i].Done, text(results[i].Detail)
	}
	const query = `WITH d AS (
			SELECT endpoint FROM delivery WHERE campaign = $1 AND endpoint = ANY($2) AND outcome IN (2, 6) ORDER BY endpoint FOR UPDATE)
		UPDATE delivery u SET flags = CASE WHEN r.done THEN u.flags & ~$5::integer ELSE u.flags | $5::integer END,
			detail = CASE WHEN NOT r.done THEN r.detail WHEN u.flags & $5::integer <> 0 THEN '' ELSE u.detail END
		FROM d JOIN (SELECT DISTINCT ON (endpoint) * FROM unnest($2::bigint[], $3::boolean[], $4::text[]) AS r(endpoint, done, detail)) r ON r.endpoint = d.endpoint
		WHERE u.campaign = $1 AND u.endpoint = d.endpoint RETURNING u.channel, r.done`
	return s.do(ctx, "store what was corrected", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE campaign SET recall = $2 WHERE num = $1 AND state = 'correcting'", num, next); err != nil {
			return err
		}
		if _, err := checkOwner(ctx, tx, num, epoch); err != nil {
			return err
		}
		if from == 0 {
			_, err := tx.Exec(ctx, "DELETE FROM campaign_count WHERE campaign = $1 AND what IN ($2, $3)", num, campaignrow.Corrected, campaignrow.Uncorrected)
			if err != nil {
				return err
			}
		}
		var t tally
		err := pgdb.Each(ctx, tx, query, []any{num, rows, done, details, campaignrow.NotCorrected}, func(rows pgx.Rows) error {
			var channel int16
			var done bool
			if err := rows.Scan(&channel, &done); err != nil {
				return err
			}
			what := int16(campaignrow.Uncorrected)
			if done {
				what = campaignrow.Corrected
			}
			t.Add(num, channel, what, 1)
			return nil
		})
		if err != nil {
			return err
		}
		return t.write(ctx, tx, now)
	})
}
