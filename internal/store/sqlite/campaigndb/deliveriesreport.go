package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// Deliveries implements campaign.Reports.
func (s *Store) Deliveries(ctx context.Context, num int64, only *campaign.Outcome, limit int, cursor int64) (list []campaign.Delivery, next int64, err error) {
	return campaignrow.Report(only, limit, cursor, func(where string, after int64, limit int) (page []campaign.Delivery, err error) {
		err = s.db.ReadFor(ctx, s.owner(num), func(c *sqlite.Conn) error {
			page = nil
			return sqlitedb.Each(c, reportQuery(where), []any{num, after, limit}, func(row *sqlite.Stmt) error {
				page = append(page, readDelivery(row))
				return nil
			})
		})
		if err != nil {
			return nil, fmt.Errorf("read deliveries: %w", known(err))
		}
		return page, nil
	})
}

// gotQuery reads when campaigns reached one person.
const gotQuery = `SELECT max(at) FROM delivery WHERE campaign IN (SELECT value FROM json_each(?)) AND endpoint IN
	(SELECT ? UNION SELECT number FROM endpoint WHERE app = ? AND recipient = ? AND recipient <> '')
	AND outcome IN (1, 2, 6) AND at > ? GROUP BY campaign ORDER BY 1 DESC`

// Got implements campaign.Limits.
func (s *Store) Got(ctx context.Context, app string, nums []int64, targets []campaign.Target, since time.Time) ([][]time.Time, error) {
	list, err := json.Marshal(nums)
	if err != nil {
		return nil, err
	}
	got := make([][]time.Time, len(targets))
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		for i := range targets {
			got[i] = nil
			args := []any{string(list), targets[i].Row, app, targets[i].Recipient, millis.Of(since)}
			if err := sqlitedb.Each(c, gotQuery, args, func(row *sqlite.Stmt) error {
				got[i] = append(got[i], millis.Time(row.ColumnInt64(0)))
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", known(err))
	}
	return got, nil
}

func reportQuery(where string) string {
	table := "delivery d"
	if where != "" {
		table += " INDEXED BY delivery_ended" // SQLite does not choose this index by itself
	}
	return deliveryQuery(table, where)
}

func deliveryQuery(table, where string) string {
	return `SELECT d.endpoint, d.endpoint_id, d.channel, d.outcome, d.detail, d.attempts, d.flags, d.due, d.at, d.external, coalesce(e.recipient, '')
		FROM ` + table + ` LEFT JOIN endpoint e ON e.number = d.endpoint WHERE d.campaign = ? AND d.endpoint > ?` + where + " ORDER BY d.endpoint LIMIT ?"
}

// DeliveriesTo implements campaign.Reports.
func (s *Store) DeliveriesTo(ctx context.Context, app string, num int64, recipient string) (list []campaign.Delivery, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		list = nil
		of := " AND d.endpoint IN (SELECT number FROM endpoint WHERE app = ? AND recipient = ? AND recipient <> '')"
		return sqlitedb.Each(c, deliveryQuery("delivery d", of), []any{num, 0, app, recipient, campaign.ReportLooks}, func(row *sqlite.Stmt) error {
			list = append(list, readDelivery(row))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", known(err))
	}
	return list, nil
}

func readDelivery(row *sqlite.Stmt) campaign.Delivery {
	var id audience.ID
	row.ColumnBytes(1, id[:])
	d := campaign.Delivery{
		Row: row.ColumnInt64(0), Endpoint: id.String(), Recipient: row.ColumnText(10), Channel: campaignrow.ChannelOf(int16Of(row, 2)),
		Outcome: campaign.Outcome(row.ColumnInt64(3)), Detail: row.ColumnText(4), Attempts: row.ColumnInt(5), // written by us
		At: millis.Time(row.ColumnInt64(8)), External: row.ColumnText(9),
	}
	campaignrow.Delivery(&d, row.ColumnInt32(6), row.ColumnInt64(7))
	return d
}

// Track implements campaign.Tracks.
func (s *Store) Track(ctx context.Context, num, row int64, what campaign.Reaction, now time.Time) (first bool, err error) {
	flag := campaignrow.Reaction(what)
	err = s.db.DoFor(ctx, s.owner(num), func(c *sqlite.Conn) error {
		first = false
		var channel int16
		var flags int32
		err := sqlitedb.Each(c, "SELECT channel, flags FROM delivery WHERE campaign = ? AND endpoint = ? AND flags & ? = 0", []any{num, row, flag},
			func(row *sqlite.Stmt) error {
				channel, flags, first = int16Of(row, 0), row.ColumnInt32(1), true
				return nil
			})
		if err != nil || !first {
			return err
		}
		if err := sqlitedb.Each(c, "UPDATE delivery SET flags = flags | ? WHERE campaign = ? AND endpoint = ?", []any{flag, num, row}, nil); err != nil {
			return err
		}
		var t tally
		t.React(num, channel, flags, what)
		return t.write(c, now)
	})
	if err != nil {
		return false, fmt.Errorf("note that a message was %s: %w", what, known(err))
	}
	return first, nil
}

// TrackKey implements campaign.Tracks.
func (s *Store) TrackKey(ctx context.Context, app string) (secret []byte, err error) {
	read := func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT secret FROM track_key WHERE app = ?", []any{app}, func(row *sqlite.Stmt) error {
			secret = make([]byte, row.ColumnLen(0))
			row.ColumnBytes(0, secret)
			return nil
		})
	}
	err = s.db.ReadFor(ctx, app, read)
	if err == nil && secret == nil {
		fresh := campaignrow.NewTrackKey()
		err = s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
			if err := sqlitedb.Each(c, "INSERT INTO track_key(app, secret) VALUES (?, ?) ON CONFLICT DO NOTHING", []any{app, fresh}, nil); err != nil {
				return err
			}
			return read(c)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the tracking secret of %s: %w", app, known(err))
	}
	return secret, nil
}
