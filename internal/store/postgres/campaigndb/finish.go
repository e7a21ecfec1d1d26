package campaigndb

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// finishRows is the number of outcomes written in one transaction.
const finishRows = 500

// Finish implements campaign.Queue.
func (s *Store) Finish(ctx context.Context, epoch, num int64, results []campaign.Result, now time.Time) error {
	for len(results) > 0 {
		part := distinct(results)
		results = results[len(part):]
		err := s.do(ctx, "store outcomes", func(ctx context.Context, tx pgx.Tx) error {
			if _, err := checkOwner(ctx, tx, num, epoch); err != nil {
				return err
			}
			return finish(ctx, tx, epoch, num, part, now)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// distinct returns the results up to the first repeated delivery, since a statement changes a row only once.
func distinct(results []campaign.Result) []campaign.Result {
	seen := make(map[int64]bool, min(len(results), finishRows))
	for i := range results {
		if i == finishRows || seen[results[i].Row] {
			return results[:i]
		}
		seen[results[i].Row] = true
	}
	return results
}

// finish writes the results of deliveries that are pending or that this owner is sending.
func finish(ctx context.Context, tx pgx.Tx, epoch, num int64, results []campaign.Result, now time.Time) error {
	n := len(results)
	rows, outcomes, dues, attempts := make([]int64, n), make([]int16, n), make([]int64, n), make([]int32, n)
	flags, externals, details := make([]int32, n), make([]string, n), make([]string, n)
	byRow := make(map[int64]*campaign.Result, n)
	for i := range results {
		r := &results[i]
		byRow[r.Row] = r
		rows[i], outcomes[i], dues[i], attempts[i] = r.Row, int16(r.Outcome), millis.Of(r.Due), int32(r.Attempts) // a few tries
		externals[i], details[i] = text(r.External), text(r.Detail)
		if r.Held {
			dues[i] = campaignrow.Held
		}
		if r.Unsure {
			flags[i] = campaignrow.Unsure
		}
	}
	var t tally
	var changed []*campaign.Result // results that change their endpoints
	query := fmt.Sprintf(locked, "(outcome = 1 AND epoch = $3 OR outcome = 0)") + `UPDATE delivery u SET outcome = r.outcome, due = r.due, attempts = r.attempts,
			flags = u.flags & ~1 | r.flags, external = r.external, detail = r.detail, at = $4
		FROM d JOIN unnest($2::bigint[], $5::smallint[], $6::bigint[], $7::integer[], $8::integer[], $9::text[], $10::text[])
			AS r(endpoint, outcome, due, attempts, flags, external, detail) ON r.endpoint = d.endpoint
		WHERE u.campaign = $1 AND u.endpoint = d.endpoint RETURNING u.endpoint, u.channel, u.flags, d.outcome`
	err := pgdb.Each(ctx, tx, query, []any{num, rows, epoch, millis.Of(now), outcomes, dues, attempts, flags, externals, details}, func(rows pgx.Rows) error {
		var row int64
		var channel, was int16
		var all int32
		if err := rows.Scan(&row, &channel, &all, &was); err != nil {
			return err
		}
		r := byRow[row]
		t.MoveOf(num, channel, all, campaign.Outcome(was), r.Outcome) // written by us
		if r.Disable != "" || r.Address != nil {
			changed = append(changed, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := t.write(ctx, tx, now); err != nil {
		return err
	}
	return follow(ctx, tx, num, changed, now)
}

// follow disables endpoints that are gone and updates those that have a new address.
func follow(ctx context.Context, tx pgx.Tx, num int64, changed []*campaign.Result, now time.Time) error {
	if len(changed) == 0 {
		return nil
	}
	var app string
	if found, err := one(ctx, tx, "SELECT app FROM campaign WHERE num = $1", []any{num}, &app); err != nil || !found {
		return err
	}
	return followIn(ctx, tx, app, changed, now)
}

// followIn does the same for endpoints of an app.
func followIn(ctx context.Context, tx pgx.Tx, app string, changed []*campaign.Result, now time.Time) error {
	w, err := beginWrites(ctx, tx, app, now)
	if err != nil {
		return err
	}
	numbers := make([]int64, len(changed))
	for i, r := range changed {
		numbers[i] = r.Row
	}
	if err := w.load(ctx, "e.number = ANY($2)", numbers); err != nil {
		return err
	}
	for _, r := range changed {
		if r.Disable != "" {
			err = w.disable(ctx, r.Row, r.Disable, r.Since)
		} else if address, bad := audience.NormalAddress(r.Channel, r.Address); bad == nil { // an invalid address in an answer changes nothing
			err = w.move(ctx, r.Row, address)
		}
		if err != nil {
			return err
		}
	}
	return w.flush(ctx)
}

// Sweep implements campaign.Queue. Deliveries that may have arrived keep the outcome unknown unless they become pending: they cannot count
// as suppressed.
func (s *Store) Sweep(ctx context.Context, num int64, sw campaign.Sweep, limit int, now time.Time) (n int, err error) {
	query := `WITH d AS (SELECT endpoint FROM delivery WHERE campaign = $1 AND outcome = ` + fmt.Sprint(int(sw.From)) // the outcome is written into the text, so that the outcome's own index can be used
	args := []any{num, limit, int16(sw.To), millis.Of(sw.Due), text(sw.Detail), millis.Of(now)}
	if sw.Held {
		query += " AND channel IN (" + campaignrow.AllChannels() + ") AND due = $7" // so that the index on due can be used
		args = append(args, campaignrow.Held)
	}
	// Only deliveries that become pending lose the outcome unknown.
	query += ` ORDER BY endpoint LIMIT $2 FOR UPDATE)
		UPDATE delivery u SET due = $4, at = $6, outcome = CASE WHEN u.flags & 1 = 1 AND $3 <> 0 THEN 6 ELSE $3 END,
			detail = CASE WHEN u.flags & 1 = 1 AND $3 <> 0 THEN '` + campaignrow.MayHaveCome + `' || $5 ELSE $5 END
		FROM d WHERE u.campaign = $1 AND u.endpoint = d.endpoint RETURNING u.channel, u.flags, u.outcome`
	err = s.do(ctx, "change deliveries", func(ctx context.Context, tx pgx.Tx) error {
		n = 0
		var t tally
		err := pgdb.Each(ctx, tx, query, args, func(rows pgx.Rows) error {
			var channel, to int16
			var flags int32
			err := rows.Scan(&channel, &flags, &to)
			t.MoveOf(num, channel, flags, sw.From, campaign.Outcome(to)) // written by us
			n++
			return err
		})
		if err != nil {
			return err
		}
		return t.write(ctx, tx, now)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// untriedQuery looks for a delivery that waits for its first attempt.
var untriedQuery = `SELECT 1 FROM delivery WHERE outcome = 0 AND campaign = $1 AND channel IN (` + campaignrow.AllChannels() + `) AND due < $2
	AND first_at = 0 AND detail = '' LIMIT 1`

// Untried implements campaign.Queue.
func (s *Store) Untried(ctx context.Context, num int64) (found bool, err error) {
	err = s.db.Each(ctx, "read deliveries", untriedQuery, []any{num, int64(campaignrow.Held)}, func(pgx.Rows) error { found = true; return nil })
	return found, err
}

// releaseQuery makes deliveries due that wait for a decision.
var releaseQuery = `WITH d AS (SELECT endpoint FROM delivery WHERE outcome = 0 AND campaign = $1 AND channel IN (` + campaignrow.AllChannels() + `) AND due >= $2
		ORDER BY endpoint LIMIT $4 FOR UPDATE)
	UPDATE delivery u SET due = u.due - $2 + $3 FROM d WHERE u.campaign = $1 AND u.endpoint = d.endpoint`

// Release implements campaign.Queue.
func (s *Store) Release(ctx context.Context, num int64, at time.Time, limit int) (n int, err error) {
	err = s.do(ctx, "release deliveries", func(ctx context.Context, tx pgx.Tx) error {
		done, err := tx.Exec(ctx, releaseQuery, num, int64(campaignrow.Waiting), millis.Of(at), limit)
		n = int(done.RowsAffected())
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
