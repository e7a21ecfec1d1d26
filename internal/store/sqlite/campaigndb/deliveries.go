package campaigndb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/segment"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// Own implements campaign.Queue.
func (s *Store) Own(ctx context.Context, app string) (epoch int64, err error) {
	err = s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, `INSERT INTO app_owner(app, epoch) SELECT ?, epoch + 1 FROM delivery_owner WHERE true
			ON CONFLICT (app) DO UPDATE SET epoch = app_owner.epoch + 1 RETURNING epoch`, []any{app}, func(row *sqlite.Stmt) error {
			epoch = row.ColumnInt64(0)
			return nil
		})
	})
	return epoch, known(err)
}

// checkOwner refuses work on a campaign by a former owner of its app. For a deleted campaign it refuses nothing.
func checkOwner(c *sqlite.Conn, num, epoch int64) error {
	return isOwner(c, "SELECT coalesce(o.epoch, 0) FROM campaign c LEFT JOIN app_owner o ON o.app = c.app WHERE c.num = ?", num, epoch)
}

func isOwner(c *sqlite.Conn, query string, of any, epoch int64) error {
	return sqlitedb.Each(c, query, []any{of}, func(row *sqlite.Stmt) error {
		if row.ColumnInt64(0) != epoch {
			return campaign.ErrStale
		}
		return nil
	})
}

// Recover implements campaign.Queue.
func (s *Store) Recover(ctx context.Context, app string, epoch int64, limit int, resend []push.Channel, now time.Time) (n int, err error) {
	again := make(map[int16]bool, len(resend))
	for _, ch := range resend {
		again[campaignrow.Channel(ch)] = true
	}
	err = s.db.DoBulkFor(ctx, app, limit, func(c *sqlite.Conn) error {
		if err := isOwner(c, "SELECT epoch FROM app_owner WHERE app = ?", app, epoch); err != nil {
			return err
		}
		rows, err := left(c, app, epoch, limit)
		if err != nil {
			return err
		}
		n = len(rows)
		var t tally
		for _, r := range rows {
			to, detail := campaign.Unknown, campaignrow.NoAnswer
			if again[r.channel] {
				to = campaign.Pending
			}
			err := sqlitedb.Each(c, `UPDATE delivery SET outcome = ?, detail = ?, due = ?, attempts = attempts + 1, flags = flags | ?, at = ?
				WHERE campaign = ? AND endpoint = ?`, []any{int64(to), detail, millis.Of(now), campaignrow.Unsure, millis.Of(now), r.campaign, r.endpoint}, nil)
			if err != nil {
				return err
			}
			t.MoveOf(r.campaign, r.channel, r.flags, campaign.Sending, to)
		}
		return t.write(c, now)
	})
	return n, known(err)
}

type deliveryRow struct {
	campaign, endpoint int64
	channel            int16
	flags              int32
}

// left reads deliveries that a former owner of an app was sending.
func left(c *sqlite.Conn, app string, epoch int64, limit int) (rows []deliveryRow, err error) {
	err = sqlitedb.Each(c, leftQuery, []any{app, epoch, limit},
		func(row *sqlite.Stmt) error {
			rows = append(rows, deliveryRow{row.ColumnInt64(0), row.ColumnInt64(1), int16Of(row, 2), row.ColumnInt32(3)})
			return nil
		})
	return rows, err
}

// Enumerate implements campaign.Queue. It reads the audience before the write transaction: a search through many endpoints must not block
// the writer.
func (s *Store) Enumerate(ctx context.Context, epoch, num int64, limit int, place func(*campaign.Target) campaign.Place) (n int, done bool, err error) {
	if err := s.checkSpace(); err != nil {
		return 0, false, err
	}
	var list []audience.Endpoint
	var next int64
	var from *campaign.Campaign
	err = s.db.ReadFor(ctx, s.owner(num), func(c *sqlite.Conn) error {
		if from, err = campaignWhere(c, "num = ?", num); err != nil {
			return err
		}
		chosen := from.Spec.Audience
		chosen.Channels = from.Channels
		sel, err := chosen.Select("audience")
		if err != nil {
			return err
		}
		var more bool
		list, next, more, err = segment.Select(selecting{c}, dialect, from.App, sel, from.Cursor, limit)
		done = !more
		return err
	})
	if err != nil {
		return 0, false, known(err)
	}
	err = s.db.DoBulkFor(ctx, s.owner(num), max(len(list), 1), func(c *sqlite.Conn) error {
		if err := checkOwner(c, num, epoch); err != nil {
			return err
		}
		err := sqlitedb.Each(c, "UPDATE campaign SET cursor = ?, enumerated = ? WHERE num = ? AND cursor = ? AND state = 'running'",
			[]any{next, done, num, from.Cursor}, nil)
		if err != nil {
			return err
		}
		if c.Changes() == 0 { // the campaign has been paused or cancelled
			n, done = 0, false
			return nil
		}
		n, err = insertDeliveries(c, num, list, place)
		return err
	})
	return n, done, known(err)
}

func insertDeliveries(c *sqlite.Conn, num int64, list []audience.Endpoint, place func(*campaign.Target) campaign.Place) (n int, err error) {
	var t tally
	for i := range list {
		e := &list[i]
		code := campaignrow.Channel(e.Channel)
		due, flags := campaignrow.Placed(place(&campaign.Target{Row: e.Number, EndpointID: e.ID, Recipient: e.Recipient, Channel: e.Channel, Timezone: e.Timezone}))
		err := sqlitedb.Each(c, `INSERT INTO delivery(campaign, endpoint, endpoint_id, channel, outcome, due, attempts, flags, epoch, first_at, at, external, detail)
			VALUES (?, ?, ?, ?, 0, ?, 0, ?, 0, 0, 0, '', '') ON CONFLICT DO NOTHING`,
			[]any{num, e.Number, e.ID[:], code, due, flags}, nil)
		if err != nil {
			return 0, err
		}
		if c.Changes() > 0 {
			t.Put(num, code, flags)
			n++
		}
	}
	return n, t.write(c, time.Time{})
}

const targetColumns = `d.endpoint, d.endpoint_id, d.channel, d.attempts, d.flags, d.due, d.first_at, d.at, d.external, d.outcome,
	e.number, e.active, e.disabled_reason, e.recipient, e.address, e.attributes, e.locale, e.timezone`

// The queries that search for work. Each names the index that it is written for.
const (
	dueQuery = "SELECT " + targetColumns + ` FROM delivery d INDEXED BY delivery_due LEFT JOIN endpoint e ON e.number = d.endpoint
		WHERE d.outcome = 0 AND d.campaign = ? AND d.channel = ? AND d.due <= ? ORDER BY d.due, d.endpoint LIMIT ?`
	nextDueQuery = `SELECT due FROM delivery INDEXED BY delivery_due WHERE outcome = 0 AND campaign = ? AND channel = ? AND due < ?
		ORDER BY due LIMIT 1`
	lastDueQuery = `SELECT due FROM delivery INDEXED BY delivery_due WHERE outcome = 0 AND campaign = ? AND channel = ? AND due < ?
		ORDER BY due DESC LIMIT 1`
	leftQuery = `SELECT d.campaign, d.endpoint, d.channel, d.flags FROM delivery d INDEXED BY delivery_sending CROSS JOIN campaign c ON c.num = d.campaign
		WHERE d.outcome = 1 AND c.app = ? AND d.epoch < ? LIMIT ?`
)

func readTarget(row *sqlite.Stmt) (t campaign.Target, err error) {
	t = campaign.Target{
		Row: row.ColumnInt64(0), Channel: campaignrow.ChannelOf(int16Of(row, 2)), Attempts: row.ColumnInt(3), Unsure: row.ColumnInt64(4)&campaignrow.Unsure != 0,
		Due: millis.Time(row.ColumnInt64(5)), First: millis.Time(row.ColumnInt64(6)), At: millis.Time(row.ColumnInt64(7)), External: row.ColumnText(8),
		Outcome: campaign.Outcome(row.ColumnInt64(9)), Group: uint8(campaignrow.GroupOf(row.ColumnInt32(4))), // written by us
	}
	row.ColumnBytes(1, t.EndpointID[:])
	if row.ColumnIsNull(10) {
		t.Left = true
		return t, nil
	}
	t.Disabled, t.Recipient, t.Address = row.ColumnText(12), row.ColumnText(13), json.RawMessage(row.ColumnText(14))
	t.Locale, t.Timezone = row.ColumnText(16), row.ColumnText(17)
	return t, campaignrow.TargetOf(&t, row.ColumnInt64(11) == 1, row.ColumnText(15))
}

// Due implements campaign.Queue.
func (s *Store) Due(ctx context.Context, num int64, ch push.Channel, now time.Time, limit int) (list []campaign.Target, err error) {
	err = s.db.ReadFor(ctx, s.owner(num), func(c *sqlite.Conn) error {
		list = make([]campaign.Target, 0, limit)
		return sqlitedb.Each(c, dueQuery,
			[]any{num, campaignrow.Channel(ch), millis.Of(now), limit}, func(row *sqlite.Stmt) error {
				t, err := readTarget(row)
				list = append(list, t)
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", known(err))
	}
	return list, nil
}

// NextDue implements campaign.Queue.
func (s *Store) NextDue(ctx context.Context, num int64, ch push.Channel) (at time.Time, ok bool, err error) {
	return s.dueTime(ctx, nextDueQuery, num, ch)
}

// LastDue implements campaign.Queue.
func (s *Store) LastDue(ctx context.Context, num int64, ch push.Channel) (at time.Time, ok bool, err error) {
	return s.dueTime(ctx, lastDueQuery, num, ch)
}

// dueTime runs a query for the due time of one pending delivery that is not held.
func (s *Store) dueTime(ctx context.Context, query string, num int64, ch push.Channel) (at time.Time, ok bool, err error) {
	err = s.db.ReadFor(ctx, s.owner(num), func(c *sqlite.Conn) error {
		ok = false
		return sqlitedb.Each(c, query, []any{num, campaignrow.Channel(ch), campaignrow.Held}, func(row *sqlite.Stmt) error {
			at, ok = millis.Time(row.ColumnInt64(0)), true
			return nil
		})
	})
	if err != nil {
		return at, false, fmt.Errorf("read deliveries: %w", known(err))
	}
	return at, ok, nil
}

// Claim implements campaign.Queue.
func (s *Store) Claim(ctx context.Context, epoch, num int64, targets []campaign.Target, now time.Time) (claimed []campaign.Target, err error) {
	err = s.db.DoFor(ctx, s.owner(num), func(c *sqlite.Conn) error {
		claimed = make([]campaign.Target, 0, len(targets))
		if err := checkOwner(c, num, epoch); err != nil {
			return err
		}
		running := false
		err := sqlitedb.Each(c, "SELECT 1 FROM campaign WHERE num = ? AND state = 'running'", []any{num}, func(*sqlite.Stmt) error {
			running = true
			return nil
		})
		if err != nil || !running {
			return err
		}
		var t tally
		for i := range targets {
			d := targets[i]
			err := sqlitedb.Each(c, `UPDATE delivery SET outcome = 1, epoch = ?, first_at = CASE first_at WHEN 0 THEN ? ELSE first_at END, at = ?
				WHERE campaign = ? AND endpoint = ? AND outcome = 0`, []any{epoch, millis.Of(now), millis.Of(now), num, d.Row}, nil)
			if err != nil {
				return err
			}
			if c.Changes() > 0 {
				claimed = append(claimed, d)
				t.Move(num, campaignrow.Channel(d.Channel), campaign.Pending, campaign.Sending)
			}
		}
		return t.write(c, now)
	})
	if err != nil {
		return nil, claimError(err)
	}
	return claimed, nil
}

func claimError(err error) error {
	if errors.Is(err, campaign.ErrStale) {
		return err
	}
	return fmt.Errorf("claim deliveries: %w", known(err))
}

// Finish implements campaign.Queue.
func (s *Store) Finish(ctx context.Context, epoch, num int64, results []campaign.Result, now time.Time) error {
	for len(results) > 0 {
		part := results[:min(len(results), 500)]
		results = results[len(part):]
		err := s.db.DoBulkFor(ctx, s.owner(num), len(part), func(c *sqlite.Conn) error {
			if err := checkOwner(c, num, epoch); err != nil {
				return err
			}
			var t tally
			for i := range part {
				if err := finish(c, &t, epoch, num, &part[i], now); err != nil {
					return err
				}
			}
			return t.write(c, now)
		})
		if err != nil {
			return claimError(err)
		}
	}
	return nil
}

// finish writes one result, if the delivery is still pending or this owner is sending it.
func finish(c *sqlite.Conn, t *tally, epoch, num int64, r *campaign.Result, now time.Time) error {
	due := millis.Of(r.Due)
	if r.Held {
		due = campaignrow.Held
	}
	flags := 0
	if r.Unsure {
		flags = campaignrow.Unsure
	}
	set := "UPDATE delivery SET outcome = ?, due = ?, attempts = ?, flags = flags & ? | ?, external = ?, detail = ?, at = ? WHERE campaign = ? AND endpoint = ?"
	args := []any{int64(r.Outcome), due, r.Attempts, ^campaignrow.Unsure, flags, r.External, r.Detail, millis.Of(now), num, r.Row}
	from, changed, all := campaign.Sending, false, int32(0)
	read := func(row *sqlite.Stmt) error { changed, all = true, row.ColumnInt32(0); return nil }
	if err := sqlitedb.Each(c, set+" AND outcome = 1 AND epoch = ? RETURNING flags", append(args[:len(args):len(args)], epoch), read); err != nil {
		return err
	}
	if !changed {
		from = campaign.Pending
		if err := sqlitedb.Each(c, set+" AND outcome = 0 RETURNING flags", args, read); err != nil {
			return err
		}
		if !changed {
			return nil
		}
	}
	t.MoveOf(num, campaignrow.Channel(r.Channel), all, from, r.Outcome)
	if r.Disable != "" {
		return disableEndpoint(c, r.Row, r.Disable, r.Since, now)
	}
	if r.Address != nil {
		address, err := audience.NormalAddress(r.Channel, r.Address)
		if err != nil {
			return nil // a provider's answer that makes no sense moves nobody
		}
		return moveEndpoint(c, r.Row, address, now)
	}
	return nil
}
