package campaigndb

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/millis"
)

// writer changes endpoints of one app inside a transaction. It reads them together, changes them in memory one after the other, and writes
// them together. Meanwhile no other transaction can change endpoints of the app.
type writer struct {
	tx      pgx.Tx
	app     string
	now     time.Time
	sweptAt time.Time

	all   []*record
	byKey map[addressKey]*record
	known map[addressKey]bool // addresses looked up so far; byKey has those that exist
	freed map[addressKey]bool // addresses freed by unwritten changes: until they are written, no other endpoint may get the address
	names [2]nameSet

	untrusted bool // registrations by strangers, which may not use up the app's names
	sweeps    bool // the writer may delete unused names, to make room
}

type addressKey = [16]byte

// record is an endpoint that is being changed.
type record struct {
	e      audience.Endpoint  // as it is to be
	stored *audience.Endpoint // the endpoint in the database; nil: it is not stored
	dirty  bool               // the endpoint differs from the stored one
	gone   bool
}

// beginWrites locks an app's endpoints until the transaction ends.
func beginWrites(ctx context.Context, tx pgx.Tx, app string, now time.Time) (*writer, error) {
	const lock = "SELECT swept_at FROM endpoint_app WHERE app = $1 FOR UPDATE"
	var sweptAt int64
	found, err := one(ctx, tx, lock, []any{app}, &sweptAt)
	if err == nil && !found {
		if _, err = tx.Exec(ctx, "INSERT INTO endpoint_app(app) VALUES ($1) ON CONFLICT DO NOTHING", app); err == nil {
			_, err = one(ctx, tx, lock, []any{app}, &sweptAt)
		}
	}
	if err != nil {
		return nil, err
	}
	return &writer{
		tx: tx, app: app, now: now, sweptAt: millis.Time(sweptAt),
		byKey: make(map[addressKey]*record), known: make(map[addressKey]bool), freed: make(map[addressKey]bool),
	}, nil
}

func (w *writer) key(e *audience.Endpoint) addressKey {
	k := *e
	k.App = w.app
	return audience.AddressKey(&k)
}

// load reads endpoints of the app that meet a condition.
func (w *writer) load(ctx context.Context, where string, args ...any) error {
	if len(args) == 1 {
		where, args = "e.app = $1 AND "+where, append([]any{w.app}, args...)
	}
	list, err := endpointsWhere(ctx, w.tx, where, args...)
	if err != nil {
		return err
	}
	for i := range list {
		if w.byNumber(list[i].Number) != nil {
			continue
		}
		r := &record{e: list[i], stored: &list[i]}
		key := w.key(&r.e)
		w.all, w.known[key], w.byKey[key] = append(w.all, r), true, r
	}
	return nil
}

// loadKeys reads the endpoints with one of these addresses or ids.
func (w *writer) loadKeys(ctx context.Context, keys, ids [][]byte) error {
	for _, key := range keys {
		w.known[addressKey(key)] = true
	}
	if err := w.load(ctx, "e.address_key = ANY($2)", keys); err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	return w.load(ctx, "e.id = ANY($2)", ids)
}

// byID returns the endpoint with an id, or audience.ErrNotFound.
func (w *writer) byID(ctx context.Context, id audience.ID) (*record, error) {
	if r := w.find(func(r *record) bool { return r.e.ID == id }); r != nil {
		return r, nil
	}
	if err := w.load(ctx, "e.id = $2", id[:]); err != nil {
		return nil, err
	}
	if r := w.find(func(r *record) bool { return r.e.ID == id }); r != nil {
		return r, nil
	}
	return nil, audience.ErrNotFound
}

// byNumber returns a loaded endpoint, or nil.
func (w *writer) byNumber(number int64) *record {
	return w.find(func(r *record) bool { return r.e.Number == number })
}

func (w *writer) find(is func(*record) bool) *record {
	for _, r := range w.all {
		if !r.gone && is(r) {
			return r
		}
	}
	return nil
}

// refused reports whether an error means that an endpoint's requested values are not allowed.
func refused(err error) bool {
	return isTaken(err) || errors.As(err, new(*endpointrow.TooManyNames))
}

func isTaken(err error) bool { return errors.Is(err, audience.ErrTaken) }

func (w *writer) insert(ctx context.Context, e audience.Endpoint) (*record, error) {
	if e.ID == (audience.ID{}) {
		e.ID = audience.NewID(w.now)
	} else if w.find(func(r *record) bool { return r.e.ID == e.ID }) != nil {
		return nil, audience.ErrTaken
	}
	if err := w.takeNames(ctx, &e); err != nil {
		return nil, err
	}
	key := w.key(&e)
	if err := w.settle(ctx, key); err != nil {
		return nil, err
	}
	r := &record{e: e}
	w.all, w.byKey[key] = append(w.all, r), r
	return r, nil
}

func (w *writer) update(ctx context.Context, r *record, e audience.Endpoint) error {
	from, to := w.key(&r.e), w.key(&e)
	if from != to {
		if !w.known[to] {
			if err := w.loadKeys(ctx, [][]byte{bytes.Clone(to[:])}, nil); err != nil {
				return err
			}
		}
		if w.byKey[to] != nil {
			return audience.ErrTaken
		}
	}
	if err := w.takeNames(ctx, &e); err != nil {
		return err
	}
	if from != to {
		if err := w.settle(ctx, to); err != nil {
			return err
		}
		delete(w.byKey, from)
		w.byKey[to], w.freed[from] = r, true
	}
	e.Number = r.e.Number
	r.e, r.dirty = e, true
	return nil
}

func (w *writer) remove(r *record) {
	key := w.key(&r.e)
	delete(w.byKey, key)
	r.gone, w.freed[key] = true, true
}

// settle writes the endpoint that has freed an address before another endpoint gets the address.
func (w *writer) settle(ctx context.Context, key addressKey) error {
	if !w.freed[key] {
		return nil
	}
	return w.flush(ctx)
}

// flush writes all changes: deletions first, then updates, then new endpoints.
func (w *writer) flush(ctx context.Context) error {
	if err := w.addNames(ctx); err != nil {
		return err
	}
	var gone, changed, fresh []*record
	for _, r := range w.all {
		switch {
		case r.gone && r.stored != nil:
			gone = append(gone, r)
		case r.gone:
		case r.stored == nil:
			fresh = append(fresh, r)
		case r.dirty:
			changed = append(changed, r)
		}
	}
	w.all = slices.DeleteFunc(w.all, func(r *record) bool { return r.gone })
	clear(w.freed)
	if len(gone)+len(changed)+len(fresh) == 0 {
		return nil
	}
	if err := w.store(ctx, gone, changed, fresh); err != nil {
		return err
	}
	for _, r := range slices.Concat(changed, fresh) {
		e := r.e
		r.stored, r.dirty = &e, false
	}
	return nil
}
