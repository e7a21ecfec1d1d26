package campaigndb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
)

// Deliveries implements campaign.Reports.
func (s *Store) Deliveries(ctx context.Context, num int64, only *campaign.Outcome, limit int, cursor int64) (list []campaign.Delivery, next int64, err error) {
	return campaignrow.Report(only, limit, cursor, func(where string, after int64, limit int) (page []campaign.Delivery, err error) {
		err = s.db.Each(ctx, "read deliveries", reportQuery(where), []any{num, after, limit}, func(rows pgx.Rows) error {
			d, err := scanDelivery(rows)
			page = append(page, d)
			return err
		})
		return page, err
	})
}

// gotQuery reads when campaigns reached persons.
const gotQuery = `SELECT t.i, max(d.at) FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS t(number, recipient, i)
	CROSS JOIN LATERAL (SELECT t.number UNION SELECT e.number FROM endpoint e WHERE e.app = $3 AND e.recipient = t.recipient AND e.recipient <> '') n(number)
	JOIN delivery d ON d.endpoint = n.number AND d.campaign = ANY($4) AND d.outcome IN (1, 2, 6) AND d.at > $5
	GROUP BY t.i, d.campaign ORDER BY 2 DESC`

// Got implements campaign.Limits.
func (s *Store) Got(ctx context.Context, app string, nums []int64, targets []campaign.Target, since time.Time) ([][]time.Time, error) {
	rows, recipients := make([]int64, len(targets)), make([]string, len(targets))
	for i := range targets {
		rows[i], recipients[i] = targets[i].Row, targets[i].Recipient
	}
	got := make([][]time.Time, len(targets))
	err := s.db.Each(ctx, "read deliveries", gotQuery, []any{rows, recipients, app, nums, millis.Of(since)}, func(rows pgx.Rows) error {
		var i, at int64
		err := rows.Scan(&i, &at)
		if err == nil {
			got[i-1] = append(got[i-1], millis.Time(at))
		}
		return err
	})
	return got, err
}

func reportQuery(where string) string {
	return `SELECT d.endpoint, d.endpoint_id, d.channel, d.outcome, d.detail, d.attempts, d.flags, d.due, d.at, d.external, coalesce(e.recipient, '')
		FROM delivery d LEFT JOIN endpoint e ON e.number = d.endpoint WHERE d.campaign = $1 AND d.endpoint > $2` + where + " ORDER BY d.endpoint LIMIT $3"
}

// DeliveriesTo implements campaign.Reports.
func (s *Store) DeliveriesTo(ctx context.Context, app string, num int64, recipient string) (list []campaign.Delivery, err error) {
	of := " AND d.endpoint IN (SELECT number FROM endpoint WHERE app = $4 AND recipient = $5 AND recipient <> '')"
	err = s.db.Each(ctx, "read deliveries", reportQuery(of), []any{num, 0, campaign.ReportLooks, app, recipient}, func(rows pgx.Rows) error {
		d, err := scanDelivery(rows)
		list = append(list, d)
		return err
	})
	return list, err
}

func scanDelivery(rows pgx.Rows) (d campaign.Delivery, err error) {
	var id audience.ID
	var key []byte
	var channel, outcome int16
	var flags int32
	var due, at int64
	err = rows.Scan(&d.Row, &key, &channel, &outcome, &d.Detail, &d.Attempts, &flags, &due, &at, &d.External, &d.Recipient)
	if err != nil {
		return d, err
	}
	copy(id[:], key)
	d.Endpoint, d.Channel, d.Outcome, d.At = id.String(), campaignrow.ChannelOf(channel), campaign.Outcome(outcome), millis.Time(at) // written by us
	campaignrow.Delivery(&d, flags, due)
	return d, nil
}

// Track implements campaign.Tracks.
func (s *Store) Track(ctx context.Context, num, row int64, what campaign.Reaction, now time.Time) (first bool, err error) {
	err = s.do(ctx, "note that a message was "+what.String(), func(ctx context.Context, tx pgx.Tx) error {
		var channel int16
		var flags int32
		first, err = one(ctx, tx, "UPDATE delivery SET flags = flags | $3 WHERE campaign = $1 AND endpoint = $2 AND flags & $3 = 0 RETURNING channel, flags",
			[]any{num, row, campaignrow.Reaction(what)}, &channel, &flags)
		if err != nil || !first {
			return err
		}
		var t tally
		t.React(num, channel, flags, what)
		return t.write(ctx, tx, now)
	})
	return first && err == nil, err
}

// TrackKey implements campaign.Tracks.
func (s *Store) TrackKey(ctx context.Context, app string) (secret []byte, err error) {
	err = s.do(ctx, "read the tracking secret of "+app, func(ctx context.Context, tx pgx.Tx) error {
		const query = "SELECT secret FROM track_key WHERE app = $1"
		if found, err := one(ctx, tx, query, []any{app}, &secret); err != nil || found {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO track_key(app, secret) VALUES ($1, $2) ON CONFLICT DO NOTHING", app, campaignrow.NewTrackKey()); err != nil {
			return err
		}
		_, err := one(ctx, tx, query, []any{app}, &secret) // reads the other node's secret, if that was stored first
		return err
	})
	return secret, err
}
