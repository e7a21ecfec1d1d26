package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/segment"
)

// Own implements campaign.Queue. An epoch is at least the time in milliseconds. If the database loses its last commits, because another
// machine takes over in the state of a moment ago, the next epoch is still above the lost ones.
func (s *Store) Own(ctx context.Context, app string) (epoch int64, err error) {
	err = s.do(ctx, "take over deliveries", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `INSERT INTO app_owner AS o (app, epoch) VALUES ($1, $2)
			ON CONFLICT (app) DO UPDATE SET epoch = greatest(o.epoch + 1, excluded.epoch) RETURNING epoch`, app, s.now().UnixMilli()).Scan(&epoch)
	})
	return epoch, err
}

// checkOwner refuses work on a campaign by a former owner of its app, and prevents others from taking over until the transaction ends. It
// returns the campaign's state, which does not change until then; empty: the campaign was deleted, and there is no work.
func checkOwner(ctx context.Context, tx pgx.Tx, num, epoch int64) (state campaign.State, err error) {
	var now int64
	found, err := one(ctx, tx, "SELECT state FROM campaign WHERE num = $1 FOR SHARE", []any{num}, &state)
	if err != nil || !found {
		return "", err
	}
	_, err = one(ctx, tx, "SELECT o.epoch FROM app_owner o WHERE o.app = (SELECT app FROM campaign WHERE num = $1) FOR SHARE", []any{num}, &now)
	if err == nil && now != epoch {
		err = campaign.ErrStale
	}
	return state, err
}

// locked selects deliveries of a campaign that a statement is about to change, and locks them in their order.
const locked = `WITH d AS (SELECT endpoint, channel, outcome, flags FROM delivery WHERE campaign = $1 AND endpoint = ANY($2) AND %s ORDER BY endpoint FOR UPDATE) `

// Recover implements campaign.Queue.
func (s *Store) Recover(ctx context.Context, app string, epoch int64, limit int, resend []push.Channel, now time.Time) (n int, err error) {
	again := make([]int16, len(resend))
	for i, ch := range resend {
		again[i] = campaignrow.Channel(ch)
	}
	err = s.do(ctx, "recover deliveries", func(ctx context.Context, tx pgx.Tx) error {
		var is int64
		if _, err := one(ctx, tx, "SELECT epoch FROM app_owner WHERE app = $1 FOR SHARE", []any{app}, &is); err != nil {
			return err
		}
		if is != epoch {
			return campaign.ErrStale
		}
		n = 0
		var t tally
		err := pgdb.Each(ctx, tx, `WITH d AS (
				SELECT d.campaign, d.endpoint FROM delivery d JOIN campaign c ON c.num = d.campaign
				WHERE d.outcome = 1 AND c.app = $1 AND d.epoch < $2 ORDER BY d.campaign, d.endpoint LIMIT $3 FOR UPDATE OF d)
			UPDATE delivery u SET outcome = CASE WHEN u.channel = ANY($4::smallint[]) THEN 0 ELSE 6 END, detail = '`+campaignrow.NoAnswer+`',
				due = $5, attempts = attempts + 1, flags = flags | 1, at = $5
			FROM d WHERE (u.campaign, u.endpoint) = (d.campaign, d.endpoint) RETURNING u.campaign, u.channel, u.flags, u.outcome`,
			[]any{app, epoch, limit, again, millis.Of(now)}, func(rows pgx.Rows) error {
				var num int64
				var channel, to int16
				var flags int32
				err := rows.Scan(&num, &channel, &flags, &to)
				n++
				t.MoveOf(num, channel, flags, campaign.Sending, campaign.Outcome(to)) // one of two
				return err
			})
		if err != nil {
			return err
		}
		return t.write(ctx, tx, now)
	})
	return n, err
}

// Enumerate implements campaign.Queue. It reads the audience before the writing transaction: a search through many endpoints for a few must
// not hold locks.
func (s *Store) Enumerate(ctx context.Context, epoch, num int64, limit int, place func(*campaign.Target) campaign.Place) (n int, done bool, err error) {
	from, err := campaignWhere(ctx, s.db.Pool(), "num = $1", num)
	if err != nil {
		return 0, false, s.db.Known(err)
	}
	chosen := from.Spec.Audience
	chosen.Channels = from.Channels
	sel, err := chosen.Select("audience")
	if err != nil {
		return 0, false, err
	}
	list, next, more, err := segment.Select(selecting{ctx, s.db.Pool()}, dialect, from.App, sel, from.Cursor, limit)
	if err != nil {
		return 0, false, s.db.Known(err)
	}
	err = s.do(ctx, "store deliveries", func(ctx context.Context, tx pgx.Tx) error {
		moved, err := tx.Exec(ctx, "UPDATE campaign SET cursor = $2, enumerated = $3 WHERE num = $1 AND cursor = $4 AND state = 'running'", num, next, !more, from.Cursor)
		if err != nil {
			return err
		}
		if _, err := checkOwner(ctx, tx, num, epoch); err != nil {
			return err
		}
		n, done = 0, false
		if moved.RowsAffected() == 0 { // the campaign was paused or cancelled
			return nil
		}
		done = !more
		n, err = insertDeliveries(ctx, tx, num, list, place)
		return err
	})
	return n, done, err
}

func insertDeliveries(ctx context.Context, tx pgx.Tx, num int64, list []audience.Endpoint, place func(*campaign.Target) campaign.Place) (n int, err error) {
	numbers, ids, codes, dues, flags := make([]int64, len(list)), make([][]byte, len(list)), make([]int16, len(list)), make([]int64, len(list)), make([]int32, len(list))
	for i := range list {
		e := &list[i]
		numbers[i], ids[i], codes[i] = e.Number, e.ID[:], campaignrow.Channel(e.Channel)
		dues[i], flags[i] = campaignrow.Placed(place(&campaign.Target{Row: e.Number, EndpointID: e.ID, Recipient: e.Recipient, Channel: e.Channel, Timezone: e.Timezone}))
	}
	var t tally
	err = pgdb.Each(ctx, tx, `INSERT INTO delivery(campaign, endpoint, endpoint_id, channel, outcome, due, attempts, flags, epoch, first_at, at, external, detail)
		SELECT $1, e.number, e.id, e.channel, 0, e.due, 0, e.flags, 0, 0, 0, '', ''
		FROM unnest($2::bigint[], $3::bytea[], $4::smallint[], $5::bigint[], $6::integer[]) AS e(number, id, channel, due, flags)
		ON CONFLICT DO NOTHING RETURNING channel, flags`, []any{num, numbers, ids, codes, dues, flags}, func(rows pgx.Rows) error {
		var channel int16
		var all int32
		err := rows.Scan(&channel, &all)
		t.Put(num, channel, all)
		n++
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, t.write(ctx, tx, time.Time{})
}

const targetColumns = `d.endpoint, d.endpoint_id, d.channel, d.attempts, d.flags, d.due, d.first_at, d.at, d.external, d.outcome,
	e.number IS NULL, coalesce(e.active, false), coalesce(e.disabled_reason, ''), coalesce(e.recipient, ''), coalesce(e.address, ''),
	coalesce(e.attributes, '{}'), coalesce(e.locale, ''), coalesce(e.timezone, '')`

func scanTarget(rows pgx.Rows) (t campaign.Target, err error) {
	t, _, err = scanTargetAnd(rows)
	return t, err
}

// scanTargetAnd reads a delivery and its flags, and the further selected columns into more.
func scanTargetAnd(rows pgx.Rows, more ...any) (t campaign.Target, flags int32, err error) {
	var id, address, attributes []byte
	var channel, outcome int16
	var due, first, at int64
	var active bool
	err = rows.Scan(append([]any{
		&t.Row, &id, &channel, &t.Attempts, &flags, &due, &first, &at, &t.External, &outcome,
		&t.Left, &active, &t.Disabled, &t.Recipient, &address, &attributes, &t.Locale, &t.Timezone,
	}, more...)...)
	if err != nil {
		return t, flags, err
	}
	copy(t.EndpointID[:], id)
	t.Channel, t.Outcome, t.Unsure = campaignrow.ChannelOf(channel), campaign.Outcome(outcome), flags&campaignrow.Unsure != 0 // written by us
	t.Group = uint8(campaignrow.GroupOf(flags))
	t.Due, t.First, t.At = millis.Time(due), millis.Time(first), millis.Time(at)
	if t.Left {
		return t, flags, nil
	}
	t.Address = json.RawMessage(address)
	err = campaignrow.TargetOf(&t, active, string(attributes))
	return t, flags, err
}

// The queries that search for work. Each uses one of delivery's partial indexes, in that index's order.
const (
	dueQuery = "SELECT " + targetColumns + ` FROM
		(SELECT * FROM delivery WHERE outcome = 0 AND campaign = $1 AND channel = $2 AND due <= $3 ORDER BY due, endpoint LIMIT $4) d
		LEFT JOIN endpoint e ON e.number = d.endpoint ORDER BY d.due, d.endpoint`
	nextDueQuery = "SELECT due FROM delivery WHERE outcome = 0 AND campaign = $1 AND channel = $2 AND due < $3 ORDER BY due LIMIT 1"
	lastDueQuery = "SELECT due FROM delivery WHERE outcome = 0 AND campaign = $1 AND channel = $2 AND due < $3 ORDER BY due DESC LIMIT 1"
)

// targets runs a query for deliveries with their endpoints.
func (s *Store) targets(ctx context.Context, query string, args ...any) (list []campaign.Target, err error) {
	err = s.db.Each(ctx, "read deliveries", query, args, func(rows pgx.Rows) error {
		t, err := scanTarget(rows)
		list = append(list, t)
		return err
	})
	return list, err
}

// Due implements campaign.Queue.
func (s *Store) Due(ctx context.Context, num int64, ch push.Channel, now time.Time, limit int) ([]campaign.Target, error) {
	return s.targets(ctx, dueQuery, num, campaignrow.Channel(ch), millis.Of(now), limit)
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
	err = s.db.Each(ctx, "read deliveries", query, []any{num, campaignrow.Channel(ch), campaignrow.Held}, func(rows pgx.Rows) error {
		var due int64
		err := rows.Scan(&due)
		at, ok = millis.Time(due), true
		return err
	})
	return at, ok, err
}

// Claim implements campaign.Queue.
func (s *Store) Claim(ctx context.Context, epoch, num int64, targets []campaign.Target, now time.Time) (claimed []campaign.Target, err error) {
	claimed, err = s.claim(ctx, epoch, num, targets, now, "outcome = 0")
	// If a commit got no answer, its outcome shows once the database is back: no other process marks deliveries with this epoch and this
	// time.
	for pgdb.Away(err) {
		if !pause.For(ctx, awayPause) {
			return nil, fmt.Errorf("%w: %w", campaign.ErrUncertain, err)
		}
		claimed, err = s.claim(ctx, epoch, num, targets, now, "(outcome = 0 OR outcome = 1 AND epoch = $3 AND at = $4)")
	}
	return claimed, err
}

// awayPause is the pause between two tries of a claim while the database is away.
const awayPause = 250 * time.Millisecond

// claim marks the targets whose rows meet a condition.
func (s *Store) claim(ctx context.Context, epoch, num int64, targets []campaign.Target, now time.Time, which string) (claimed []campaign.Target, err error) {
	rows := make([]int64, len(targets))
	for i := range targets {
		rows[i] = targets[i].Row
	}
	// Without cancellation: after an interrupted commit its outcome would be unknown.
	err = s.do(context.WithoutCancel(ctx), "claim deliveries", func(ctx context.Context, tx pgx.Tx) error {
		claimed = nil
		state, err := checkOwner(ctx, tx, num, epoch)
		if err != nil || state != campaign.Running {
			return err
		}
		marked := make(map[int64]campaign.Outcome, len(rows)) // and what they were
		query := fmt.Sprintf(locked, which) + `UPDATE delivery u SET outcome = 1, epoch = $3, at = $4, first_at = CASE u.first_at WHEN 0 THEN $4 ELSE u.first_at END
			FROM d WHERE u.campaign = $1 AND u.endpoint = d.endpoint RETURNING u.endpoint, d.outcome`
		err = pgdb.Each(ctx, tx, query, []any{num, rows, epoch, millis.Of(now)}, func(rows pgx.Rows) error {
			var row int64
			var was int16
			err := rows.Scan(&row, &was)
			marked[row] = campaign.Outcome(was) // pending or sending
			return err
		})
		if err != nil {
			return err
		}
		var t tally
		for i := range targets {
			d := targets[i]
			was, ok := marked[d.Row]
			if !ok {
				continue
			}
			claimed = append(claimed, d)
			t.Move(num, campaignrow.Channel(d.Channel), was, campaign.Sending)
		}
		return t.write(ctx, tx, now)
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}
