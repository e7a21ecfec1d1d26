package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/store/endpointrow"
)

// write runs f with the app's endpoints locked, and writes its changes.
func (s *Store) write(ctx context.Context, op, app string, f func(context.Context, *writer) error) error {
	err := s.do(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		w, err := beginWrites(ctx, tx, app, s.now())
		if err != nil {
			return err
		}
		if err := f(ctx, w); err != nil {
			return err
		}
		return w.flush(ctx)
	})
	return err
}

// registerAll makes or renews endpoints, each as if the previous ones were already stored.
func (w *writer) registerAll(ctx context.Context, regs []audience.Registration) ([]audience.Registered, error) {
	keys, ids := make([][]byte, len(regs)), make([][]byte, 0, len(regs))
	for i := range regs {
		key := w.key(&regs[i].Endpoint)
		keys[i] = key[:]
		if former, ok := audience.FormerKey(&regs[i].Endpoint); ok {
			keys = append(keys, former[:])
		}
		if id := regs[i].Endpoint.ID; id != (audience.ID{}) {
			ids = append(ids, id[:])
		}
	}
	if err := w.loadKeys(ctx, keys, ids); err != nil {
		return nil, err
	}
	if err := w.loadNames(ctx, namesOf(regs)); err != nil {
		return nil, err
	}
	results := make([]audience.Registered, len(regs))
	of := make([]*record, len(regs))
	for i := range regs {
		var err error
		if results[i], of[i], err = w.register(ctx, &regs[i]); err != nil {
			return nil, err
		}
	}
	if err := w.flush(ctx); err != nil {
		return nil, err
	}
	for i, r := range of {
		if r != nil {
			results[i].Endpoint.Number = r.e.Number
		}
	}
	return results, nil
}

// register makes or renews one endpoint. Errors of this endpoint alone are in done; err ends the transaction.
func (w *writer) register(ctx context.Context, reg *audience.Registration) (done audience.Registered, r *record, err error) {
	w.untrusted = !reg.Trusted
	e := reg.Endpoint
	e.App = w.app
	r, found := w.of(&e)
	if found {
		e = r.e
		if err := e.Renew(reg, w.now); err != nil {
			return audience.Registered{Err: err}, nil, nil
		}
		err = w.update(ctx, r, e)
	} else {
		e.Begin(w.now)
		r, err = w.insert(ctx, e)
	}
	if refused(err) {
		return audience.Registered{Err: err}, nil, nil // the error occurred before anything was written
	}
	if err != nil {
		return done, nil, err
	}
	return audience.Registered{Endpoint: r.e, Created: !found}, r, nil
}

// of finds the endpoint with an address, including its spelling in former versions. If both spellings have an endpoint, it deletes the old
// one: both are one device.
func (w *writer) of(e *audience.Endpoint) (r *record, found bool) {
	r, found = w.byKey[w.key(e)]
	key, ok := audience.FormerKey(e)
	if !ok {
		return r, found
	}
	former, there := w.byKey[key]
	switch {
	case there && found:
		w.remove(former)
	case there:
		return former, true
	}
	return r, found
}

// UpdateEndpoint implements endpoint.Store.
func (s *Store) UpdateEndpoint(ctx context.Context, app string, id audience.ID, trusted bool, change func(*audience.Endpoint) error) (e audience.Endpoint, err error) {
	err = s.write(ctx, "change endpoint", app, func(ctx context.Context, w *writer) error {
		w.sweeps, w.untrusted = true, !trusted
		r, err := w.byID(ctx, id)
		if err != nil {
			return err
		}
		e = r.e
		if err := change(&e); err != nil {
			return err
		}
		e.UpdatedAt = w.now
		return w.update(ctx, r, e)
	})
	if err != nil {
		return audience.Endpoint{}, fmt.Errorf("change endpoint %s: %w", id, err)
	}
	return e, nil
}

// DeleteEndpoint implements endpoint.Store.
func (s *Store) DeleteEndpoint(ctx context.Context, app string, id audience.ID) error {
	err := s.write(ctx, "delete endpoint", app, func(ctx context.Context, w *writer) error {
		r, err := w.byID(ctx, id)
		if err != nil {
			return err
		}
		w.remove(r)
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete endpoint %s: %w", id, err)
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
		found := 0
		err := s.write(ctx, "erase endpoints of "+recipient, app, func(ctx context.Context, w *writer) error {
			if err := w.load(ctx, ofRecipient, app, recipient, endpointrow.MaxOfRecipient); err != nil {
				return err
			}
			found = len(w.all)
			for _, r := range w.all {
				w.remove(r)
			}
			return nil
		})
		if err != nil || found == 0 {
			return n, err
		}
		n += found
	}
}

// DisableEndpoint implements endpoint.Store.
func (s *Store) DisableEndpoint(ctx context.Context, number int64, reason string) error {
	return s.change(ctx, "disable endpoint", number, func(ctx context.Context, w *writer) error { return w.disable(ctx, number, reason, time.Time{}) })
}

// MoveEndpoint gives an endpoint another address, in its normal form. If another endpoint of the app has registered at that address itself,
// MoveEndpoint disables this one.
func (s *Store) MoveEndpoint(ctx context.Context, number int64, address json.RawMessage) error {
	return s.change(ctx, "move endpoint", number, func(ctx context.Context, w *writer) error { return w.move(ctx, number, address) })
}

// change changes the endpoint with a number, if there is one.
func (s *Store) change(ctx context.Context, op string, number int64, f func(context.Context, *writer) error) error {
	return s.do(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		var app string
		if found, err := one(ctx, tx, "SELECT app FROM endpoint WHERE number = $1", []any{number}, &app); err != nil || !found {
			return err
		}
		w, err := beginWrites(ctx, tx, app, s.now())
		if err == nil {
			err = w.load(ctx, "e.app = $1 AND e.number = $2", app, number)
		}
		if err == nil {
			err = f(ctx, w)
		}
		if err == nil {
			err = w.flush(ctx)
		}
		return err
	})
}

// disable disables a loaded endpoint. It does nothing to an endpoint that is gone, already disabled, or registered after since.
func (w *writer) disable(ctx context.Context, number int64, reason string, since time.Time) error {
	r := w.byNumber(number)
	if r == nil || !r.e.EndsWith(since) {
		return nil
	}
	e := r.e
	e.Status, e.DisabledReason, e.UpdatedAt = audience.Disabled, text(audience.Reason(reason)), w.now
	return w.update(ctx, r, e)
}

// move gives a loaded endpoint another address.
func (w *writer) move(ctx context.Context, number int64, address json.RawMessage) error {
	r := w.byNumber(number)
	if r == nil {
		return nil
	}
	e := r.e
	e.Address, e.UpdatedAt = address, w.now
	err := w.update(ctx, r, e)
	if isTaken(err) {
		return w.disable(ctx, number, endpointrow.MovedOntoAnother, time.Time{})
	}
	return err
}
