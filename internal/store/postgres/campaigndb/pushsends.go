package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

var _ escalation.Store = (*Store)(nil)

// Hand implements escalation.Store. Any server may hand over: existing sends do not change.
func (s *Store) Hand(ctx context.Context, sends []escalation.Send, now time.Time) error {
	for len(sends) > 0 {
		part := sends[:min(len(sends), finishRows)]
		sends = sends[len(part):]
		err := s.do(ctx, "store sends", func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			for i := range part {
				e := &part[i]
				b.Queue(`INSERT INTO push_send (id, app, recipient, note, pos, step, endpoint, endpoint_id, channel, outcome, due, attempts, flags, epoch, first_at, at, expires_at, external, detail, target)
					VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, 0, 0, $11, $13, '', $14, $15) ON CONFLICT DO NOTHING`,
					e.ID[:], e.App, e.Recipient, e.Note, e.Pos, e.Step, e.Endpoint, e.EndpointID[:], campaignrow.Channel(e.Channel), int16(e.Outcome), millis.Of(now),
					campaignrow.SendFlags(e), millis.Of(e.ExpiresAt), text(e.Detail), e.Options.To)
			}
			return tx.SendBatch(ctx, b).Close()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RecoverSends implements escalation.Store. The caller then owns the app's sends: later claims and outcomes of a former owner are refused.
// An epoch is at least the time in milliseconds, see Own.
func (s *Store) RecoverSends(ctx context.Context, app string, resend []push.Channel, now time.Time) (total int, err error) {
	again := make([]int16, len(resend))
	for i, ch := range resend {
		again[i] = campaignrow.Channel(ch)
	}
	var epoch int64
	err = s.do(ctx, "take over sends", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `INSERT INTO send_owner AS o (app, epoch) VALUES ($1, $2)
			ON CONFLICT (app) DO UPDATE SET epoch = greatest(o.epoch + 1, excluded.epoch) RETURNING epoch`, app, s.now().UnixMilli()).Scan(&epoch)
	})
	if err != nil {
		return 0, err
	}
	s.sendEpochs.Store(app, epoch)
	for n := int64(1); n > 0; {
		err := s.do(ctx, "recover sends", func(ctx context.Context, tx pgx.Tx) error {
			if err := checkSender(ctx, tx, app, epoch); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, `WITH d AS (SELECT num FROM push_send WHERE outcome = 1 AND app = $6 AND epoch <> $1 ORDER BY num LIMIT $2 FOR UPDATE)
				UPDATE push_send u SET outcome = CASE WHEN u.channel = ANY($3::smallint[]) THEN 0 ELSE 6 END, detail = '`+campaignrow.NoAnswer+`',
					due = $4, attempts = attempts + 1, flags = flags | $5, at = $4 FROM d WHERE u.num = d.num`, epoch, finishRows, again, millis.Of(now), campaignrow.Unsure, app)
			n = tag.RowsAffected()
			return err
		})
		if err != nil {
			return total, err
		}
		total += int(n)
	}
	return total, nil
}

// checkSender refuses writes of a former owner, and prevents others from taking over until the transaction ends.
func checkSender(ctx context.Context, tx pgx.Tx, app string, epoch int64) error {
	var now int64
	if _, err := one(ctx, tx, "SELECT epoch FROM send_owner WHERE app = $1 FOR SHARE", []any{app}, &now); err != nil {
		return err
	}
	if now != epoch {
		return escalation.ErrStale
	}
	return nil
}

// WaitingSends implements escalation.Store. It finds each place by one index lookup, however many sends wait there.
func (s *Store) WaitingSends(ctx context.Context) (places []escalation.Place, err error) {
	const query = `WITH RECURSIVE p AS (
			(SELECT app, channel FROM push_send WHERE outcome = 0 ORDER BY app, channel LIMIT 1)
			UNION ALL
			SELECT n.app, n.channel FROM p CROSS JOIN LATERAL (
				SELECT app, channel FROM push_send d WHERE outcome = 0 AND (d.app, d.channel) > (p.app, p.channel) ORDER BY app, channel LIMIT 1) AS n
		)
		SELECT app, channel FROM p WHERE EXISTS (SELECT FROM push_send d WHERE d.outcome = 0 AND d.app = p.app AND d.channel = p.channel AND d.due < $1)
		UNION SELECT app, channel FROM push_send WHERE outcome = 1 ORDER BY app, channel`
	err = s.db.Each(ctx, "look for sends that wait", query, []any{campaignrow.Held}, func(rows pgx.Rows) error {
		var p escalation.Place
		var channel int16
		err := rows.Scan(&p.App, &channel)
		p.Channel = campaignrow.ChannelOf(channel)
		places = append(places, p)
		return err
	})
	return places, err
}

// DueSends implements escalation.Store.
func (s *Store) DueSends(ctx context.Context, p escalation.Place, now time.Time, limit int) (list []escalation.Due, err error) {
	const query = "SELECT " + targetColumns + `, d.num, d.note, d.pos, d.id, d.expires_at, d.recipient, d.target FROM
		(SELECT * FROM push_send WHERE outcome = 0 AND app = $1 AND channel = $2 AND due <= $3 ORDER BY due, num LIMIT $4) d
		LEFT JOIN endpoint e ON e.number = d.endpoint ORDER BY d.due, d.num`
	err = s.db.Each(ctx, "read sends", query, []any{p.App, campaignrow.Channel(p.Channel), millis.Of(now), limit}, func(rows pgx.Rows) error {
		d, err := scanDue(rows)
		list = append(list, d)
		return err
	})
	return list, err
}

func scanDue(rows pgx.Rows) (d escalation.Due, err error) {
	var more struct {
		num, expires      int64
		id                []byte
		recipient, target string
	}
	t, flags, err := scanTargetAnd(rows, &more.num, &d.Note, &d.Pos, &more.id, &more.expires, &more.recipient, &more.target)
	if err != nil {
		return d, err
	}
	d.Delivery, d.ExpiresAt, d.Options = t, millis.Time(more.expires), campaignrow.OptionsOf(flags, more.target)
	d.Row = more.num
	copy(d.ID[:], more.id)
	if more.target != "" {
		d.Recipient, d.Address, d.Left = more.recipient, escalation.TargetAddress(more.target), false
	}
	if d.Recipient != more.recipient { // the endpoint was given to another recipient
		d.Recipient, d.Left = more.recipient, true
	}
	return d, nil
}

// NextSend implements escalation.Store.
func (s *Store) NextSend(ctx context.Context, p escalation.Place) (at time.Time, err error) {
	const query = "SELECT due FROM push_send WHERE outcome = 0 AND app = $1 AND channel = $2 AND due < $3 ORDER BY due LIMIT 1"
	err = s.db.Each(ctx, "read sends", query, []any{p.App, campaignrow.Channel(p.Channel), campaignrow.Held}, func(rows pgx.Rows) error {
		var due int64
		err := rows.Scan(&due)
		at = millis.Time(due)
		return err
	})
	return at, err
}

// ClaimSends implements escalation.Store. If a claim's commit got no answer, it looks up the outcome, as Claim does.
func (s *Store) ClaimSends(ctx context.Context, p escalation.Place, rows []int64, now time.Time) (claimed map[int64]bool, err error) {
	epoch := s.sendEpoch(p.App)
	claimed, err = s.claimSends(ctx, epoch, p, rows, now, "outcome = 0")
	for pgdb.Away(err) {
		if !pause.For(ctx, awayPause) {
			return nil, err
		}
		claimed, err = s.claimSends(ctx, epoch, p, rows, now, "(outcome = 0 OR outcome = 1 AND epoch = $3 AND at = $4)")
	}
	return claimed, err
}

// sendEpoch returns the epoch since which this store owns an app's sends; 0: another store owns them, or none yet.
func (s *Store) sendEpoch(app string) int64 {
	epoch, _ := s.sendEpochs.Load(app)
	n, _ := epoch.(int64)
	return n
}

func (s *Store) claimSends(ctx context.Context, epoch int64, p escalation.Place, rows []int64, now time.Time, which string) (claimed map[int64]bool, err error) {
	err = s.do(context.WithoutCancel(ctx), "claim sends", func(ctx context.Context, tx pgx.Tx) error {
		if err := checkSender(ctx, tx, p.App, epoch); err != nil {
			return err
		}
		claimed = make(map[int64]bool, len(rows))
		return pgdb.Each(ctx, tx, `WITH d AS (SELECT num FROM push_send WHERE num = ANY($1) AND app = $2 AND `+which+` ORDER BY num FOR UPDATE)
			UPDATE push_send u SET outcome = 1, epoch = $3, at = $4, first_at = CASE u.first_at WHEN 0 THEN $4 ELSE u.first_at END FROM d WHERE u.num = d.num RETURNING u.num`,
			[]any{rows, p.App, epoch, millis.Of(now)}, func(rows pgx.Rows) error {
				var num int64
				err := rows.Scan(&num)
				claimed[num] = true
				return err
			})
	})
	return claimed, err
}

// FinishSends implements escalation.Store.
func (s *Store) FinishSends(ctx context.Context, p escalation.Place, results []dispatch.Result, now time.Time) error {
	epoch := s.sendEpoch(p.App)
	for len(results) > 0 {
		part := distinct(results)
		results = results[len(part):]
		err := s.do(ctx, "store outcomes of sends", func(ctx context.Context, tx pgx.Tx) error {
			if err := checkSender(ctx, tx, p.App, epoch); err != nil {
				return err
			}
			return finishSends(ctx, tx, epoch, p.App, part, now)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func finishSends(ctx context.Context, tx pgx.Tx, epoch int64, app string, results []dispatch.Result, now time.Time) error {
	b := &pgx.Batch{}
	for i := range results {
		r := &results[i]
		due, flags := millis.Of(r.Due), 0
		if r.Held {
			due = campaignrow.Held
		}
		if r.Unsure {
			flags = campaignrow.Unsure
		}
		b.Queue(`UPDATE push_send SET outcome = $1, due = $2, attempts = $3, flags = flags & $4 | $5, external = $6, detail = $7, at = $8
			WHERE num = $9 AND app = $10 AND (outcome = 0 OR outcome = 1 AND epoch = $11) RETURNING endpoint`,
			int16(r.Outcome), due, r.Attempts, ^campaignrow.Unsure, flags, text(r.External), text(r.Detail), millis.Of(now), r.Row, app, epoch)
	}
	var changed []dispatch.Result // results that change their endpoints, by endpoint
	answers := tx.SendBatch(ctx, b)
	for i := range results {
		rows, err := answers.Query()
		if err == nil {
			var endpoint int64
			_, err = pgx.ForEachRow(rows, []any{&endpoint}, func() error {
				if r := results[i]; endpoint != 0 && (r.Disable != "" || r.Address != nil) {
					r.Row = endpoint
					changed = append(changed, r)
				}
				return nil
			})
		}
		if err != nil {
			_ = answers.Close()
			return err
		}
	}
	if err := answers.Close(); err != nil || len(changed) == 0 {
		return err
	}
	refs := make([]*dispatch.Result, len(changed))
	for i := range changed {
		refs[i] = &changed[i]
	}
	return followIn(ctx, tx, app, refs, now)
}

// ReleaseSends implements escalation.Store.
func (s *Store) ReleaseSends(ctx context.Context, now time.Time) (apps []string, err error) {
	err = s.do(ctx, "release sends", func(ctx context.Context, tx pgx.Tx) error {
		apps = nil
		return pgdb.Each(ctx, tx, `WITH d AS (SELECT num FROM push_send WHERE outcome = 0 AND due = $1 ORDER BY num FOR UPDATE),
			u AS (UPDATE push_send u SET due = $2 FROM d WHERE u.num = d.num RETURNING u.app) SELECT DISTINCT app FROM u ORDER BY app`,
			[]any{campaignrow.Held, millis.Of(now)}, func(rows pgx.Rows) error {
				var app string
				err := rows.Scan(&app)
				apps = append(apps, app)
				return err
			})
	})
	return apps, err
}

const sendColumns = `d.num, d.id, d.app, d.recipient, d.note, d.pos, d.step, d.endpoint, d.endpoint_id, d.channel, d.outcome, d.attempts, d.flags, d.at,
	d.expires_at, d.external, d.detail, e.address, d.first_at, d.target, d.due FROM push_send d LEFT JOIN endpoint e ON e.number = d.endpoint AND e.active AND e.recipient = d.recipient`

func scanSend(rows pgx.Rows) (e escalation.Send, err error) {
	var id, endpoint []byte
	var address *string
	var channel, outcome int16
	var flags int32
	var at, expires, first, due int64
	var target string
	err = rows.Scan(&e.Num, &id, &e.App, &e.Recipient, &e.Note, &e.Pos, &e.Step, &e.Endpoint, &endpoint, &channel, &outcome, &e.Attempts, &flags, &at,
		&expires, &e.External, &e.Detail, &address, &first, &target, &due)
	if err != nil {
		return e, err
	}
	copy(e.ID[:], id)
	copy(e.EndpointID[:], endpoint)
	e.Channel, e.Outcome = campaignrow.ChannelOf(channel), dispatch.Outcome(outcome) // written by us
	e.At, e.ExpiresAt, e.First = millis.Time(at), millis.Time(expires), millis.Time(first)
	if address != nil {
		e.Address = json.RawMessage(*address)
	}
	campaignrow.Send(&e, flags, target)
	e.Held = e.Outcome == dispatch.Pending && due == campaignrow.Held
	return e, nil
}

func (s *Store) sends(ctx context.Context, where string, args ...any) (list []escalation.Send, err error) {
	err = s.db.Each(ctx, "read sends", "SELECT "+sendColumns+where, args, func(rows pgx.Rows) error {
		e, err := scanSend(rows)
		list = append(list, e)
		return err
	})
	return list, err
}

// SendsOf implements escalation.Store.
func (s *Store) SendsOf(ctx context.Context, app, note, recipient string) ([]escalation.Send, error) {
	return s.sends(ctx, " WHERE d.app = $1 AND d.note = $2 AND d.recipient = $3 ORDER BY d.step, d.num", app, note, recipient)
}

// ShownSends implements escalation.Store.
func (s *Store) ShownSends(ctx context.Context, after int64, now time.Time, limit int) ([]escalation.Send, error) {
	return s.sends(ctx, " WHERE d.outcome IN (2, 6) AND d.num > $1 AND d.expires_at > $2 AND d.flags & $3 = 0 ORDER BY d.num LIMIT $4",
		after, millis.Of(now), campaignrow.Stays, limit)
}

// Withdrawn implements escalation.Store.
func (s *Store) Withdrawn(ctx context.Context, num int64, failed string, now time.Time) error {
	set, args := "outcome = $3, detail = CASE outcome WHEN 6 THEN detail ELSE '' END", []any{num, millis.Of(now), int16(dispatch.TakenBack)}
	if failed != "" {
		set, args = "flags = flags | $3, detail = CASE outcome WHEN 6 THEN detail || '; and then: ' ELSE '' END || $4::text", []any{num, millis.Of(now), campaignrow.NotRecalled, text(failed)}
	}
	return s.do(ctx, "note that a send was withdrawn", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE push_send SET "+set+", at = $2 WHERE num = $1 AND outcome IN (2, 6)", args...)
		return err
	})
}

// Answered implements escalation.Store.
func (s *Store) Answered(ctx context.Context, app string, answers []escalation.Answer, now time.Time) (list []escalation.Send, err error) {
	err = s.do(ctx, "note what receivers say", func(ctx context.Context, tx pgx.Tx) error {
		list = make([]escalation.Send, len(answers))
		for i := range answers {
			a := &answers[i]
			_, err := tx.Exec(ctx, "UPDATE push_send SET flags = flags | $1, at = CASE WHEN flags & $1 = $1 THEN at ELSE $2 END WHERE id = $3 AND app = $4",
				campaignrow.AnswerFlags(a), millis.Of(now), a.ID[:], app)
			if err != nil {
				return err
			}
			err = pgdb.Each(ctx, tx, "SELECT "+sendColumns+" WHERE d.id = $1 AND d.app = $2", []any{a.ID[:], app}, func(rows pgx.Rows) (err error) {
				list[i], err = scanSend(rows)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

// PruneSends implements escalation.Store.
func (s *Store) PruneSends(ctx context.Context, before, now time.Time, limit int) (more bool, err error) {
	err = s.do(ctx, "delete old sends", func(ctx context.Context, tx pgx.Tx) error {
		ended, err := tx.Exec(ctx, `WITH d AS (SELECT num FROM push_send WHERE outcome = 0 AND due = $1 AND expires_at <= $2 ORDER BY num LIMIT $3 FOR UPDATE SKIP LOCKED)
			UPDATE push_send u SET outcome = $4, at = $2, detail = 'its channel refused the credential until it had expired' FROM d WHERE u.num = d.num`,
			campaignrow.Held, millis.Of(now), limit, int16(dispatch.Expired))
		if err != nil {
			return err
		}
		gone, err := tx.Exec(ctx, "DELETE FROM push_send WHERE num IN (SELECT num FROM push_send WHERE outcome > 1 AND at < $1 AND expires_at < $2 LIMIT $3 FOR UPDATE SKIP LOCKED)",
			millis.Of(before), millis.Of(now.Add(-notification.AckGrace)), limit)
		more = ended.RowsAffected() == int64(limit) || gone.RowsAffected() == int64(limit)
		return err
	})
	return more, err
}

// eraseSends deletes the record of the escalation steps sent to a recipient.
func (s *Store) eraseSends(ctx context.Context, app, recipient string) error {
	for n := int64(finishRows); n == finishRows; {
		err := s.do(ctx, fmt.Sprintf("erase what was sent to %s", recipient), func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, "DELETE FROM push_send WHERE num IN (SELECT num FROM push_send WHERE app = $1 AND recipient = $2 ORDER BY num LIMIT $3)", app, recipient, finishRows)
			n = tag.RowsAffected()
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
