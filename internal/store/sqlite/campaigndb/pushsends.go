package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ escalation.Store = (*Store)(nil)

// Hand implements escalation.Store. It works also without free space, since the notification was accepted already.
func (s *Store) Hand(ctx context.Context, sends []escalation.Send, now time.Time) error {
	for len(sends) > 0 {
		part := sends[:min(len(sends), 500)]
		sends = sends[len(part):]
		err := s.db.DoFor(ctx, part[0].App, func(c *sqlite.Conn) error {
			for i := range part {
				e := &part[i]
				err := sqlitedb.Each(c, `INSERT INTO push_send(id, app, recipient, note, pos, step, endpoint, endpoint_id, channel, outcome, due, attempts, flags, first_at, at, expires_at, external, detail, target)
					VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 0, ?, ?, '', ?, ?) ON CONFLICT DO NOTHING`,
					[]any{
						e.ID[:], e.App, e.Recipient, e.Note, e.Pos, e.Step, e.Endpoint, e.EndpointID[:], campaignrow.Channel(e.Channel), int64(e.Outcome), millis.Of(now),
						campaignrow.SendFlags(e), millis.Of(now), millis.Of(e.ExpiresAt), e.Detail, e.Options.To,
					}, nil)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("store sends: %w", known(err))
		}
	}
	return nil
}

// RecoverSends implements escalation.Store.
func (s *Store) RecoverSends(ctx context.Context, app string, resend []push.Channel, now time.Time) (total int, err error) {
	again := make(map[int16]bool, len(resend))
	for _, ch := range resend {
		again[campaignrow.Channel(ch)] = true
	}
	for {
		n := 0
		err = s.db.DoBulk(ctx, 500, func(c *sqlite.Conn) error {
			n = 0
			left := make(map[int64]int16)
			err := sqlitedb.Each(c, "SELECT num, channel FROM push_send INDEXED BY push_send_sending WHERE outcome = 1 AND app = ? LIMIT 500", []any{app}, func(row *sqlite.Stmt) error {
				left[row.ColumnInt64(0)] = int16Of(row, 1)
				return nil
			})
			for num, channel := range left {
				if err != nil {
					return err
				}
				to := dispatch.Unknown
				if again[channel] {
					to = dispatch.Pending
				}
				err = sqlitedb.Each(c, "UPDATE push_send SET outcome = ?, detail = ?, due = ?, attempts = attempts + 1, flags = flags | ?, at = ? WHERE num = ?",
					[]any{int64(to), campaignrow.NoAnswer, millis.Of(now), campaignrow.Unsure, millis.Of(now), num}, nil)
				n++
			}
			return err
		})
		if err != nil || n == 0 {
			return total, known(err)
		}
		total += n
	}
}

// WaitingSends implements escalation.Store. Finding a place takes one index lookup, however many sends wait there.
func (s *Store) WaitingSends(ctx context.Context) (places []escalation.Place, err error) {
	const first = `SELECT app, channel FROM push_send INDEXED BY push_send_due WHERE outcome = 0 AND (app, channel) > (?, ?) ORDER BY app, channel LIMIT 1`
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		places = nil
		app, channel := "", int16(0)
		for found := true; found; {
			found = false
			err := sqlitedb.Each(c, first, []any{app, channel}, func(row *sqlite.Stmt) error {
				app, channel, found = row.ColumnText(0), int16Of(row, 1), true
				return nil
			})
			if err != nil {
				return err
			}
			if !found {
				break
			}
			p := escalation.Place{App: app, Channel: campaignrow.ChannelOf(channel)}
			if at, err := nextSend(c, p); err != nil {
				return err
			} else if !at.IsZero() {
				places = append(places, p)
			}
		}
		return sqlitedb.Each(c, "SELECT DISTINCT app, channel FROM push_send INDEXED BY push_send_sending WHERE outcome = 1", nil, func(row *sqlite.Stmt) error {
			if p := (escalation.Place{App: row.ColumnText(0), Channel: campaignrow.ChannelOf(int16Of(row, 1))}); !slices.Contains(places, p) {
				places = append(places, p)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look for sends that wait: %w", known(err))
	}
	return places, nil
}

// DueSends implements escalation.Store.
func (s *Store) DueSends(ctx context.Context, p escalation.Place, now time.Time, limit int) (list []escalation.Due, err error) {
	const query = `SELECT d.endpoint, d.endpoint_id, d.channel, d.attempts, d.flags, d.due, d.first_at, d.at, d.external, d.outcome,
		e.number, e.active, e.disabled_reason, e.recipient, e.address, e.attributes, e.locale, e.timezone, d.num, d.note, d.pos, d.id, d.expires_at, d.recipient, d.target
		FROM push_send d INDEXED BY push_send_due LEFT JOIN endpoint e ON e.number = d.endpoint
		WHERE d.outcome = 0 AND d.app = ? AND d.channel = ? AND d.due <= ? ORDER BY d.due, d.num LIMIT ?`
	err = s.db.ReadFor(ctx, p.App, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, query, []any{p.App, campaignrow.Channel(p.Channel), millis.Of(now), limit}, func(row *sqlite.Stmt) error {
			t, err := readTarget(row)
			d := escalation.Due{Delivery: t, Note: row.ColumnText(19), Pos: row.ColumnInt64(20), ExpiresAt: millis.Time(row.ColumnInt64(22))}
			d.Row = row.ColumnInt64(18)
			row.ColumnBytes(21, d.ID[:])
			target := row.ColumnText(24)
			d.Options = campaignrow.OptionsOf(row.ColumnInt32(4), target)
			if target != "" {
				d.Recipient, d.Address, d.Left = row.ColumnText(23), escalation.TargetAddress(target), false
			}
			if recipient := row.ColumnText(23); d.Recipient != recipient { // the endpoint now belongs to another recipient
				d.Recipient, d.Left = recipient, true
			}
			list = append(list, d)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read sends: %w", known(err))
	}
	return list, nil
}

func nextSend(c *sqlite.Conn, p escalation.Place) (at time.Time, err error) {
	const query = "SELECT due FROM push_send INDEXED BY push_send_due WHERE outcome = 0 AND app = ? AND channel = ? AND due < ? ORDER BY due LIMIT 1"
	err = sqlitedb.Each(c, query, []any{p.App, campaignrow.Channel(p.Channel), campaignrow.Held}, func(row *sqlite.Stmt) error {
		at = millis.Time(row.ColumnInt64(0))
		return nil
	})
	return at, err
}

// NextSend implements escalation.Store.
func (s *Store) NextSend(ctx context.Context, p escalation.Place) (at time.Time, err error) {
	err = s.db.ReadFor(ctx, p.App, func(c *sqlite.Conn) error {
		at, err = nextSend(c, p)
		return err
	})
	if err != nil {
		return at, fmt.Errorf("read sends: %w", known(err))
	}
	return at, nil
}

// ClaimSends implements escalation.Store.
func (s *Store) ClaimSends(ctx context.Context, p escalation.Place, rows []int64, now time.Time) (claimed map[int64]bool, err error) {
	err = s.db.DoFor(ctx, p.App, func(c *sqlite.Conn) error {
		claimed = make(map[int64]bool, len(rows))
		for _, num := range rows {
			err := sqlitedb.Each(c, `UPDATE push_send SET outcome = 1, first_at = CASE first_at WHEN 0 THEN ? ELSE first_at END, at = ?
				WHERE num = ? AND app = ? AND outcome = 0`, []any{millis.Of(now), millis.Of(now), num, p.App}, nil)
			if err != nil {
				return err
			}
			claimed[num] = c.Changes() > 0
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim sends: %w", known(err))
	}
	return claimed, nil
}

// FinishSends implements escalation.Store.
func (s *Store) FinishSends(ctx context.Context, p escalation.Place, results []dispatch.Result, now time.Time) error {
	for len(results) > 0 {
		part := results[:min(len(results), 500)]
		results = results[len(part):]
		err := s.db.DoFor(ctx, p.App, func(c *sqlite.Conn) error {
			for i := range part {
				if err := finishSend(c, p.App, &part[i], now); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("write outcomes of sends: %w", known(err))
		}
	}
	return nil
}

func finishSend(c *sqlite.Conn, app string, r *dispatch.Result, now time.Time) error {
	due, flags, endpoint := millis.Of(r.Due), 0, int64(0)
	if r.Held {
		due = campaignrow.Held
	}
	if r.Unsure {
		flags = campaignrow.Unsure
	}
	err := sqlitedb.Each(c, `UPDATE push_send SET outcome = ?, due = ?, attempts = ?, flags = flags & ? | ?, external = ?, detail = ?, at = ?
		WHERE num = ? AND app = ? AND outcome IN (0, 1) RETURNING endpoint`,
		[]any{int64(r.Outcome), due, r.Attempts, ^campaignrow.Unsure, flags, r.External, r.Detail, millis.Of(now), r.Row, app}, func(row *sqlite.Stmt) error {
			endpoint = row.ColumnInt64(0)
			return nil
		})
	switch {
	case err != nil || endpoint == 0:
		return err
	case r.Disable != "":
		return disableEndpoint(c, endpoint, r.Disable, r.Since, now)
	case r.Address != nil:
		address, err := audience.NormalAddress(r.Channel, r.Address)
		if err != nil {
			return nil // a provider's answer that makes no sense moves nobody
		}
		return moveEndpoint(c, endpoint, address, now)
	}
	return nil
}

// ReleaseSends implements escalation.Store.
func (s *Store) ReleaseSends(ctx context.Context, now time.Time) (apps []string, err error) {
	err = s.db.DoBulk(ctx, 500, func(c *sqlite.Conn) error {
		apps = nil
		err := sqlitedb.Each(c, "SELECT DISTINCT app FROM push_send WHERE outcome = 0 AND due = ?", []any{campaignrow.Held}, func(row *sqlite.Stmt) error {
			apps = append(apps, row.ColumnText(0))
			return nil
		})
		if err != nil || apps == nil {
			return err
		}
		return sqlitedb.Each(c, "UPDATE push_send SET due = ? WHERE outcome = 0 AND due = ?", []any{millis.Of(now), campaignrow.Held}, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("release sends: %w", known(err))
	}
	return apps, nil
}

const sendColumns = `d.num, d.id, d.app, d.recipient, d.note, d.pos, d.step, d.endpoint, d.endpoint_id, d.channel, d.outcome, d.attempts, d.flags, d.at,
	d.expires_at, d.external, d.detail, e.address, d.first_at, d.target, d.due FROM push_send d LEFT JOIN endpoint e ON e.number = d.endpoint AND e.active = 1 AND e.recipient = d.recipient`

func readSend(row *sqlite.Stmt) (e escalation.Send) {
	e = escalation.Send{
		Num: row.ColumnInt64(0), App: row.ColumnText(2), Recipient: row.ColumnText(3), Note: row.ColumnText(4), Pos: row.ColumnInt64(5), Step: row.ColumnInt(6),
		Endpoint: row.ColumnInt64(7), Channel: campaignrow.ChannelOf(int16Of(row, 9)), Outcome: dispatch.Outcome(row.ColumnInt64(10)), // written by us
		Attempts: row.ColumnInt(11), At: millis.Time(row.ColumnInt64(13)), First: millis.Time(row.ColumnInt64(18)),
		ExpiresAt: millis.Time(row.ColumnInt64(14)), External: row.ColumnText(15), Detail: row.ColumnText(16),
	}
	row.ColumnBytes(1, e.ID[:])
	row.ColumnBytes(8, e.EndpointID[:])
	if !row.ColumnIsNull(17) {
		e.Address = json.RawMessage(row.ColumnText(17))
	}
	campaignrow.Send(&e, row.ColumnInt32(12), row.ColumnText(19))
	e.Held = e.Outcome == dispatch.Pending && row.ColumnInt64(20) == campaignrow.Held
	return e
}

// SendsOf implements escalation.Store.
func (s *Store) SendsOf(ctx context.Context, app, note, recipient string) (list []escalation.Send, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, "SELECT "+sendColumns+" WHERE d.app = ? AND d.note = ? AND d.recipient = ? ORDER BY d.step, d.num", []any{app, note, recipient},
			func(row *sqlite.Stmt) error {
				list = append(list, readSend(row))
				return nil
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read sends: %w", known(err))
	}
	return list, nil
}

// ShownSends implements escalation.Store.
func (s *Store) ShownSends(ctx context.Context, after int64, now time.Time, limit int) (list []escalation.Send, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, "SELECT "+sendColumns+" WHERE d.outcome IN (2, 6) AND d.num > ? AND d.expires_at > ? AND d.flags & ? = 0 ORDER BY d.num LIMIT ?",
			[]any{after, millis.Of(now), campaignrow.Stays, limit}, func(row *sqlite.Stmt) error {
				list = append(list, readSend(row))
				return nil
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read sends: %w", known(err))
	}
	return list, nil
}

// Withdrawn implements escalation.Store.
func (s *Store) Withdrawn(ctx context.Context, num int64, failed string, now time.Time) error {
	set, args := "outcome = ?, detail = CASE outcome WHEN 6 THEN detail ELSE '' END", []any{int64(dispatch.TakenBack)}
	if failed != "" {
		set, args = "flags = flags | ?, detail = CASE outcome WHEN 6 THEN detail || '; and then: ' ELSE '' END || ?", []any{campaignrow.NotRecalled, failed}
	}
	err := s.db.DoBulk(ctx, 1, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "UPDATE push_send SET "+set+", at = ? WHERE num = ? AND outcome IN (2, 6)", append(args[:len(args):len(args)], millis.Of(now), num), nil)
	})
	if err != nil {
		return fmt.Errorf("note that a send was withdrawn: %w", known(err))
	}
	return nil
}

// Answered implements escalation.Store.
func (s *Store) Answered(ctx context.Context, app string, answers []escalation.Answer, now time.Time) (list []escalation.Send, err error) {
	err = s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		list = make([]escalation.Send, len(answers))
		for i := range answers {
			a := &answers[i]
			flags := campaignrow.AnswerFlags(a)
			err := sqlitedb.Each(c, "UPDATE push_send SET flags = flags | ?, at = CASE flags & ? WHEN ? THEN at ELSE ? END WHERE id = ? AND app = ?",
				[]any{flags, flags, flags, millis.Of(now), a.ID[:], app}, nil)
			if err != nil {
				return err
			}
			err = sqlitedb.Each(c, "SELECT "+sendColumns+" WHERE d.id = ? AND d.app = ?", []any{a.ID[:], app}, func(row *sqlite.Stmt) error {
				list[i] = readSend(row)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("note what receivers say: %w", known(err))
	}
	return list, nil
}

// PruneSends implements escalation.Store.
func (s *Store) PruneSends(ctx context.Context, before, now time.Time, limit int) (more bool, err error) {
	err = s.db.DoBulk(ctx, limit, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, `UPDATE push_send SET outcome = ?, at = ?, detail = 'its channel refused the credential until it had expired'
			WHERE num IN (SELECT num FROM push_send WHERE outcome = 0 AND due = ? AND expires_at <= ? LIMIT ?)`,
			[]any{int64(dispatch.Expired), millis.Of(now), campaignrow.Held, millis.Of(now), limit}, nil)
		if err != nil {
			return err
		}
		more = c.Changes() == limit
		err = sqlitedb.Each(c, "DELETE FROM push_send WHERE num IN (SELECT num FROM push_send INDEXED BY push_send_at WHERE outcome > 1 AND at < ? AND expires_at < ? LIMIT ?)",
			[]any{millis.Of(before), millis.Of(now.Add(-notification.AckGrace)), limit}, nil)
		more = more || c.Changes() == limit
		return err
	})
	if err != nil {
		return false, fmt.Errorf("delete old sends: %w", known(err))
	}
	return more, nil
}

// eraseSends deletes the record of what escalation steps sent to a recipient.
func (s *Store) eraseSends(ctx context.Context, app, recipient string) error {
	for more := true; more; {
		err := s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
			err := sqlitedb.Each(c, "DELETE FROM push_send WHERE num IN (SELECT num FROM push_send WHERE app = ? AND recipient = ? LIMIT 500)", []any{app, recipient}, nil)
			more = c.Changes() == 500
			return err
		})
		if err != nil {
			return fmt.Errorf("erase what was sent to %s: %w", recipient, known(err))
		}
	}
	return nil
}
