package campaigndb

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// Sweep implements campaign.Queue. Deliveries that may have arrived stay unknown unless they become pending, since they cannot be reported
// as suppressed.
func (s *Store) Sweep(ctx context.Context, num int64, sw campaign.Sweep, limit int, now time.Time) (n int, err error) {
	query, args := sweepQuery(sw), []any{num}
	if sw.Held {
		args = append(args, campaignrow.Held)
	}
	err = s.db.DoBulkFor(ctx, s.owner(num), limit, func(c *sqlite.Conn) error {
		type swept struct {
			endpoint, flags int64
			channel         int16
		}
		var rows []swept
		err := sqlitedb.Each(c, query+" LIMIT ?", append(args[:len(args):len(args)], limit), func(row *sqlite.Stmt) error {
			rows = append(rows, swept{row.ColumnInt64(0), row.ColumnInt64(2), int16Of(row, 1)})
			return nil
		})
		if err != nil {
			return err
		}
		n = len(rows)
		var t tally
		for _, r := range rows {
			to, detail := sw.To, sw.Detail
			if r.flags&campaignrow.Unsure != 0 && to != campaign.Pending {
				to, detail = campaign.Unknown, campaignrow.MayHaveCome+detail
			}
			err := sqlitedb.Each(c, "UPDATE delivery SET outcome = ?, due = ?, detail = ?, at = ? WHERE campaign = ? AND endpoint = ?",
				[]any{int64(to), millis.Of(sw.Due), detail, millis.Of(now), num, r.endpoint}, nil)
			if err != nil {
				return err
			}
			t.MoveOf(num, r.channel, int32(r.flags), sw.From, to) // written by us
		}
		return t.write(c, now)
	})
	if err != nil {
		return 0, fmt.Errorf("change deliveries: %w", known(err))
	}
	return n, nil
}

// The queries about deliveries that wait for a decision, and those that do not. The channels are named so that the index on due can be used.
var (
	untriedQuery = `SELECT 1 FROM delivery INDEXED BY delivery_due WHERE outcome = 0 AND campaign = ? AND channel IN (` + campaignrow.AllChannels() + `) AND due < ?
		AND first_at = 0 AND detail = '' LIMIT 1`
	releaseQuery = `UPDATE delivery SET due = due - ? + ? WHERE campaign = ? AND endpoint IN (SELECT endpoint FROM delivery INDEXED BY delivery_due
		WHERE outcome = 0 AND campaign = ? AND channel IN (` + campaignrow.AllChannels() + `) AND due >= ? LIMIT ?)`
)

// Untried implements campaign.Queue.
func (s *Store) Untried(ctx context.Context, num int64) (found bool, err error) {
	err = s.db.ReadFor(ctx, s.owner(num), func(c *sqlite.Conn) error {
		found = false
		return sqlitedb.Each(c, untriedQuery, []any{num, campaignrow.Held}, func(*sqlite.Stmt) error { found = true; return nil })
	})
	if err != nil {
		return false, fmt.Errorf("read deliveries: %w", known(err))
	}
	return found, nil
}

// Release implements campaign.Queue.
func (s *Store) Release(ctx context.Context, num int64, at time.Time, limit int) (n int, err error) {
	err = s.db.DoBulkFor(ctx, s.owner(num), limit, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, releaseQuery, []any{campaignrow.Waiting, millis.Of(at), num, num, campaignrow.Waiting, limit}, nil)
		n = c.Changes()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("release deliveries: %w", known(err))
	}
	return n, nil
}

// sweepQuery returns the query for deliveries of an outcome. The outcome is a literal in the text so that SQLite uses the outcome's own
// index: a slice must not read the rows that earlier slices have moved.
func sweepQuery(sw campaign.Sweep) string {
	query := "SELECT endpoint, channel, flags FROM delivery"
	switch sw.From {
	case campaign.Pending:
		query += " INDEXED BY delivery_due"
	case campaign.Unknown:
		query += " INDEXED BY delivery_unknown"
	}
	query += " WHERE campaign = ? AND outcome = " + strconv.Itoa(int(sw.From))
	if sw.Held {
		query += " AND channel IN (" + campaignrow.AllChannels() + ") AND due = ?" // so that the index on due can be used
	}
	return query
}

// Recallable implements campaign.RecallQueue.
func (s *Store) Recallable(ctx context.Context, num, from int64, limit int) (sent []campaign.Target, next int64, err error) {
	err = s.db.ReadFor(ctx, s.owner(num), func(c *sqlite.Conn) error {
		sent = nil
		return sqlitedb.Each(c, "SELECT "+targetColumns+` FROM delivery d LEFT JOIN endpoint e ON e.number = d.endpoint
			WHERE d.campaign = ? AND d.endpoint > ? AND d.outcome IN (2, 6) ORDER BY d.endpoint LIMIT ?`, []any{num, from, limit},
			func(row *sqlite.Stmt) error {
				t, err := readTarget(row)
				sent = append(sent, t)
				return err
			})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read deliveries: %w", known(err))
	}
	if len(sent) == limit {
		next = sent[limit-1].Row
	}
	return sent, next, nil
}

// FinishRecall implements campaign.RecallQueue.
func (s *Store) FinishRecall(ctx context.Context, epoch, num int64, results []campaign.RecallResult, next int64, now time.Time) error {
	err := s.db.DoBulkFor(ctx, s.owner(num), len(results)+1, func(c *sqlite.Conn) error {
		if err := checkOwner(c, num, epoch); err != nil {
			return err
		}
		if err := sqlitedb.Each(c, "UPDATE campaign SET recall = ? WHERE num = ?", []any{next, num}, nil); err != nil {
			return err
		}
		var t tally
		for i := range results {
			if err := finishRecall(c, &t, num, &results[i], now); err != nil {
				return err
			}
		}
		return t.write(c, now)
	})
	if err != nil {
		return claimError(err)
	}
	return nil
}

func finishRecall(c *sqlite.Conn, t *tally, num int64, r *campaign.RecallResult, now time.Time) error {
	code := campaignrow.Channel(r.Channel)
	var was campaign.Outcome
	var flags int64
	found := false
	err := sqlitedb.Each(c, "SELECT outcome, flags FROM delivery WHERE campaign = ? AND endpoint = ? AND outcome IN (2, 6)", []any{num, r.Row},
		func(row *sqlite.Stmt) error {
			was, flags, found = campaign.Outcome(row.ColumnInt64(0)), row.ColumnInt64(1), true // written by us
			return nil
		})
	if err != nil || !found {
		return err
	}
	if r.Done {
		t.MoveOf(num, code, int32(flags), was, campaign.TakenBack) // written by us
		if flags&campaignrow.NotRecalled != 0 {
			t.Add(num, code, campaignrow.Unrecalled, -1)
		}
		return sqlitedb.Each(c, "UPDATE delivery SET outcome = ?, flags = flags & ?, detail = '', at = ? WHERE campaign = ? AND endpoint = ?",
			[]any{int64(campaign.TakenBack), ^campaignrow.NotRecalled, millis.Of(now), num, r.Row}, nil)
	}
	if flags&campaignrow.NotRecalled == 0 {
		t.Add(num, code, campaignrow.Unrecalled, 1)
	}
	return sqlitedb.Each(c, "UPDATE delivery SET flags = flags | ?, detail = ? WHERE campaign = ? AND endpoint = ?",
		[]any{campaignrow.NotRecalled, r.Detail, num, r.Row}, nil)
}

// FinishCorrection implements campaign.RecallQueue.
func (s *Store) FinishCorrection(ctx context.Context, epoch, num int64, results []campaign.RecallResult, from, next int64, now time.Time) error {
	err := s.db.DoBulkFor(ctx, s.owner(num), len(results)+1, func(c *sqlite.Conn) error {
		if err := checkOwner(c, num, epoch); err != nil {
			return err
		}
		if err := sqlitedb.Each(c, "UPDATE campaign SET recall = ? WHERE num = ? AND state = 'correcting'", []any{next, num}, nil); err != nil {
			return err
		}
		if from == 0 {
			err := sqlitedb.Each(c, "DELETE FROM campaign_count WHERE campaign = ? AND what IN (?, ?)", []any{num, campaignrow.Corrected, campaignrow.Uncorrected}, nil)
			if err != nil {
				return err
			}
		}
		var t tally
		for i := range results {
			if err := finishCorrection(c, &t, num, &results[i]); err != nil {
				return err
			}
		}
		return t.write(c, now)
	})
	if err != nil {
		return claimError(err)
	}
	return nil
}

func finishCorrection(c *sqlite.Conn, t *tally, num int64, r *campaign.RecallResult) error {
	what, set, args := int16(campaignrow.Corrected), "detail = CASE WHEN flags & ? THEN '' ELSE detail END, flags = flags & ?", []any{campaignrow.NotCorrected, ^campaignrow.NotCorrected}
	if !r.Done {
		what, set, args = campaignrow.Uncorrected, "flags = flags | ?, detail = ?", []any{campaignrow.NotCorrected, r.Detail}
	}
	err := sqlitedb.Each(c, "UPDATE delivery SET "+set+" WHERE campaign = ? AND endpoint = ? AND outcome IN (2, 6)", append(args, num, r.Row), nil)
	if err == nil && c.Changes() > 0 {
		t.Add(num, campaignrow.Channel(r.Channel), what, 1)
	}
	return err
}
