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

func reportQuery(where string) string {
	return `SELECT d.endpoint, d.endpoint_id, d.channel, d.outcome, d.detail, d.attempts, d.flags, d.due, d.at, d.external, coalesce(e.recipient, '')
		FROM delivery d LEFT JOIN endpoint e ON e.number = d.endpoint WHERE d.campaign = $1 AND d.endpoint > $2` + where + " ORDER BY d.endpoint LIMIT $3"
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
	d.Endpoint, d.Channel, d.Outcome, d.At = id.String(), campaignrow.ChannelOf(channel), campaign.Outcome(outcome), millis.Time(at) //nolint:gosec // written by us
	campaignrow.Delivery(&d, flags, due)
	return d, nil
}

// Track implements campaign.Tracks.
func (s *Store) Track(ctx context.Context, num, row int64, what campaign.Reaction, now time.Time) (first bool, err error) {
	err = s.do(ctx, "note that a message was "+what.String(), func(ctx context.Context, tx pgx.Tx) error {
		var channel int16
		first, err = one(ctx, tx, "UPDATE delivery SET flags = flags | $3 WHERE campaign = $1 AND endpoint = $2 AND flags & $3 = 0 RETURNING channel",
			[]any{num, row, campaignrow.Reaction(what)}, &channel)
		if err != nil || !first {
			return err
		}
		var t tally
		t.Add(num, channel, campaignrow.Reactions+int16(what), 1)
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
