package campaigndb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// bulkEndpoints is how many endpoints one slice registers: each takes some ten rows, with its tags and attributes.
const bulkEndpoints = 100

// Register creates endpoints, or renews those whose address exists already. It returns one result each, in order, once they are on disk.
// Large batches are written in slices, between which other operations get their turn.
func (s *Store) Register(ctx context.Context, app string, regs []audience.Registration) ([]audience.Registered, error) {
	if err := s.checkSpace(); err != nil {
		return nil, fmt.Errorf("register endpoints: %w", err)
	}
	done := make([]audience.Registered, 0, len(regs))
	for len(regs) > 0 {
		n := min(len(regs), bulkEndpoints)
		slice := regs[:n]
		var results []audience.Registered
		work := func(c *sqlite.Conn) error {
			w := endpointWriter{c: c, app: app, now: s.now(), swept: &s.swept}
			results = make([]audience.Registered, 0, n)
			for i := range slice {
				r, err := w.register(&slice[i])
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			return w.count()
		}
		var err error
		if n == 1 {
			err = s.db.DoFor(ctx, app, work)
		} else {
			err = s.db.DoBulkFor(ctx, app, min(8*n, 500), work)
		}
		if err != nil {
			return done, fmt.Errorf("register endpoints: %w", known(err))
		}
		done, regs = append(done, results...), regs[n:]
	}
	return done, nil
}

// UpdateEndpoint changes one endpoint and returns the result; trusted has the same meaning as for registrations. change may be called more
// than once.
func (s *Store) UpdateEndpoint(ctx context.Context, app string, id audience.ID, trusted bool, change func(*audience.Endpoint) error) (e audience.Endpoint, err error) {
	err = s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		old, found, err := endpointByID(c, app, id)
		switch {
		case err != nil:
			return err
		case !found:
			return audience.ErrNotFound
		}
		e = old
		if err := change(&e); err != nil {
			return err
		}
		e.UpdatedAt = s.now()
		w := endpointWriter{c: c, app: app, now: s.now(), untrusted: !trusted, swept: &s.swept}
		if err := w.update(&old, &e); err != nil {
			return err
		}
		return w.count()
	})
	if err != nil {
		return audience.Endpoint{}, fmt.Errorf("change endpoint %s: %w", id, known(err))
	}
	return e, nil
}

// DeleteEndpoint deletes one endpoint.
func (s *Store) DeleteEndpoint(ctx context.Context, app string, id audience.ID) error {
	err := s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		e, found, err := endpointByID(c, app, id)
		switch {
		case err != nil:
			return err
		case !found:
			return audience.ErrNotFound
		}
		w := endpointWriter{c: c, app: app, now: s.now()}
		if err := w.delete(&e); err != nil {
			return err
		}
		return w.count()
	})
	if err != nil {
		return fmt.Errorf("delete endpoint %s: %w", id, known(err))
	}
	return nil
}

// EraseRecipient implements endpoint.Store.
func (s *Store) EraseRecipient(ctx context.Context, app, recipient string) (n int, err error) {
	if err := s.eraseSends(ctx, app, recipient); err != nil {
		return 0, err
	}
	if err := s.eraseBegun(ctx, app, recipient); err != nil {
		return 0, err
	}
	if err := s.eraseNamed(ctx, app, recipient); err != nil {
		return 0, err
	}
	said, err := s.erasePreferences(ctx, app, recipient)
	if err != nil {
		return 0, err
	}
	if said {
		n++
	}
	for {
		list, err := s.EndpointsOf(ctx, app, recipient)
		if err != nil || len(list) == 0 {
			return n, err
		}
		err = s.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
			w := endpointWriter{c: c, app: app, now: s.now()}
			for i := range list {
				e, found, err := endpointByNumber(c, list[i].Number)
				if err != nil {
					return err
				}
				if !found || e.Recipient != recipient {
					continue
				}
				if err := w.delete(&e); err != nil {
					return err
				}
			}
			return w.count()
		})
		if err != nil {
			return n, fmt.Errorf("erase endpoints of %s: %w", recipient, known(err))
		}
		n += len(list)
	}
}

// DisableEndpoint disables an endpoint, so that nothing more is sent to it. It does nothing if the endpoint was deleted.
func (s *Store) DisableEndpoint(ctx context.Context, number int64, reason string) error {
	err := s.db.Do(ctx, func(c *sqlite.Conn) error { return disableEndpoint(c, number, reason, time.Time{}, s.now()) })
	if err != nil {
		return fmt.Errorf("disable endpoint: %w", known(err))
	}
	return nil
}

// MoveEndpoint changes an endpoint's address, which must be in its normal form: see moveEndpoint.
func (s *Store) MoveEndpoint(ctx context.Context, number int64, address json.RawMessage) error {
	err := s.db.Do(ctx, func(c *sqlite.Conn) error { return moveEndpoint(c, number, address, s.now()) })
	if err != nil {
		return fmt.Errorf("move endpoint: %w", known(err))
	}
	return nil
}

// disableEndpoint disables an endpoint inside a transaction. It changes nothing if the endpoint was deleted, is disabled already or has
// registered after since.
func disableEndpoint(c *sqlite.Conn, number int64, reason string, since, now time.Time) error {
	return changeEndpoint(c, number, now, func(e *audience.Endpoint) bool {
		if !e.EndsWith(since) {
			return false
		}
		e.Status, e.DisabledReason = audience.Disabled, audience.Reason(reason)
		return true
	})
}

// moveEndpoint changes an endpoint's address inside a transaction. If the app already has an endpoint with the new address, which
// registered by itself, it disables the moved one instead.
func moveEndpoint(c *sqlite.Conn, number int64, address json.RawMessage, now time.Time) error {
	err := changeEndpoint(c, number, now, func(e *audience.Endpoint) bool {
		e.Address = address
		return true
	})
	if errors.Is(err, audience.ErrTaken) {
		return disableEndpoint(c, number, endpointrow.MovedOntoAnother, time.Time{}, now)
	}
	return err
}

// changeEndpoint changes an endpoint inside a transaction if it exists and change returns true.
func changeEndpoint(c *sqlite.Conn, number int64, now time.Time, change func(*audience.Endpoint) bool) error {
	old, found, err := endpointByNumber(c, number)
	if err != nil || !found {
		return err
	}
	e := old
	if !change(&e) {
		return nil
	}
	e.UpdatedAt = now
	w := endpointWriter{c: c, app: e.App, now: now}
	if err := w.update(&old, &e); err != nil {
		return err
	}
	return w.count()
}

// endpointWriter writes endpoints of one app inside a transaction.
type endpointWriter struct {
	c      *sqlite.Conn
	app    string
	now    time.Time
	names  map[nameKey]int64 // looked up in this transaction
	counts map[endpointrow.Count]int64
	days   endpointrow.Days

	untrusted bool       // may not create so many names that the app has none left
	swept     *time.Time // time of the last sweep of names; nil: they are not swept
}

// register makes or renews one endpoint. Errors of this endpoint alone are in the result; err ends the transaction.
func (w *endpointWriter) register(r *audience.Registration) (done audience.Registered, err error) {
	e := r.Endpoint
	e.App = w.app
	w.untrusted = !r.Trusted
	key := audience.AddressKey(&e)
	old, found, err := endpointWhere(w.c, "e.app = ? AND e.address_key = ?", w.app, key[:])
	if err == nil {
		old, found, err = w.former(&e, old, found)
	}
	if err != nil {
		return done, err
	}
	if found {
		e = old
		if err := e.Renew(r, w.now); err != nil {
			return audience.Registered{Err: err}, nil
		}
		err = w.update(&old, &e)
	} else {
		e.Begin(w.now)
		err = w.insert(&e)
	}
	if many := new(endpointrow.TooManyNames); errors.Is(err, audience.ErrTaken) || errors.As(err, &many) {
		return audience.Registered{Err: err}, nil // this error occurs before anything is written
	}
	return audience.Registered{Endpoint: e, Created: !found}, err
}

// former finds the endpoint whose address has the key that an earlier version derived. If there is also one with today's key, it deletes
// the former one: both are one device.
func (w *endpointWriter) former(e *audience.Endpoint, today audience.Endpoint, found bool) (audience.Endpoint, bool, error) {
	key, ok := audience.FormerKey(e)
	if !ok {
		return today, found, nil
	}
	former, there, err := endpointWhere(w.c, "e.app = ? AND e.address_key = ?", w.app, key[:])
	if err != nil || !there {
		return today, found, err
	}
	if found {
		return today, true, w.delete(&former)
	}
	return former, true, nil
}

func (w *endpointWriter) insert(e *audience.Endpoint) error {
	if e.ID == (audience.ID{}) {
		e.ID = audience.NewID(w.now)
	} else if _, taken, err := endpointByID(w.c, w.app, e.ID); err != nil || taken {
		return errors.Join(err, audience.ErrTaken)
	}
	entries, err := w.entries(e)
	if err != nil {
		return err
	}
	columns, err := endpointValues(e)
	if err != nil {
		return err
	}
	err = sqlitedb.Each(w.c, `INSERT INTO endpoint(app, id, channel, recipient, address, address_key, tags, attributes, locale, timezone,
		active, disabled_reason, created_at, updated_at, last_seen_at, token) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, columns, nil)
	if err != nil {
		return err
	}
	e.Number = w.c.LastInsertRowID()
	w.add(nil, e)
	return w.index(e.Number, nil, entries)
}

func (w *endpointWriter) update(old, e *audience.Endpoint) error {
	if key := audience.AddressKey(e); key != audience.AddressKey(old) {
		_, taken, err := endpointWhere(w.c, "e.app = ? AND e.address_key = ?", w.app, key[:])
		if err != nil || taken {
			return errors.Join(err, audience.ErrTaken)
		}
	}
	before, err := w.entries(old)
	if err != nil {
		return err
	}
	after, err := w.entries(e)
	if err != nil {
		return err
	}
	columns, err := endpointValues(e)
	if err != nil {
		return err
	}
	err = sqlitedb.Each(w.c, `UPDATE endpoint SET app = ?, id = ?, channel = ?, recipient = ?, address = ?, address_key = ?, tags = ?, attributes = ?,
		locale = ?, timezone = ?, active = ?, disabled_reason = ?, created_at = ?, updated_at = ?, last_seen_at = ?, token = ?
		WHERE number = ?`, append(columns, e.Number), nil)
	if err != nil {
		return err
	}
	w.add(old, e)
	return w.index(e.Number, before, after)
}

func (w *endpointWriter) delete(e *audience.Endpoint) error {
	entries, err := w.entries(e)
	if err != nil {
		return err
	}
	if err := w.index(e.Number, entries, nil); err != nil {
		return err
	}
	w.add(e, nil)
	return sqlitedb.Each(w.c, "DELETE FROM endpoint WHERE number = ?", []any{e.Number}, nil)
}

// endpointValues returns the column values in the order of INSERT and UPDATE.
func endpointValues(e *audience.Endpoint) ([]any, error) {
	tags, attributes, err := endpointrow.JSON(e)
	if err != nil {
		return nil, err
	}
	key := audience.AddressKey(e)
	var token any
	if e.Token != (audience.TokenHash{}) {
		token = e.Token[:]
	}
	return []any{
		e.App, e.ID[:], string(e.Channel), e.Recipient, string(e.Address), key[:], tags, attributes, e.Locale, e.Timezone,
		e.Status == audience.Active, e.DisabledReason, millis.Of(e.CreatedAt), millis.Of(e.UpdatedAt), millis.Of(e.LastSeenAt), token,
	}, nil
}

// add counts a change of an endpoint: before is nil for a new one, after is nil for a deleted one.
func (w *endpointWriter) add(before, after *audience.Endpoint) {
	if w.counts == nil {
		w.counts, w.days = make(map[endpointrow.Count]int64), make(endpointrow.Days)
	}
	if before != nil {
		w.counts[endpointrow.CountOf(before)]--
	}
	if after != nil {
		w.counts[endpointrow.CountOf(after)]++
	}
	w.days.Note(before, after, w.now)
}

// count writes the changed endpoint counts.
func (w *endpointWriter) count() error {
	for k, n := range w.counts {
		if n == 0 {
			continue
		}
		err := sqlitedb.Each(w.c, `INSERT INTO endpoint_count(app, channel, active, n) VALUES (?, ?, ?, ?)
			ON CONFLICT (app, channel, active) DO UPDATE SET n = endpoint_count.n + excluded.n`, []any{w.app, k.Channel, k.Active, n}, nil)
		if err != nil {
			return err
		}
	}
	for k, n := range w.days {
		err := sqlitedb.Each(w.c, `INSERT INTO endpoint_day(app, day, channel, gained, lost) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (app, day, channel) DO UPDATE SET gained = gained + excluded.gained, lost = lost + excluded.lost`,
			[]any{w.app, k.Day, k.Channel, n.Gained, n.Lost}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}
