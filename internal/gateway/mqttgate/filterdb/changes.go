package filterdb

import (
	"context"
	"errors"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqltx"
)

// change is a change of a device's filters.
type change struct {
	of     Device
	what   what
	filter string // that is kept or dropped
	until  time.Time
	rev    int64       // of the end that is unmarked
	shared bool        // of a device that is forgotten: it has shared filters
	ended  bool        // this change has deleted rows
	done   func(error) // may be nil
}

// what is a kind of change.
type what uint8

const (
	keep   what = iota // a filter
	drop               // a filter
	forget             // all filters, and what waits for the device
	extend             // the time of all filters
	unmark             // the note of when the last session ended
)

// changes are those that wait, of each device in order. A change takes the place of those before it that it makes void. So for each device at most
// one waits for each filter, and one of every other kind: what ends filters needs no limit and is never refused.
type changes struct {
	of   map[Device][]change
	kept int // how many keep a filter; these are refused if there are too many
}

func (w *changes) add(c change) {
	if w.of == nil {
		w.of = make(map[Device][]change)
	}
	list := slices.DeleteFunc(w.of[c.of], func(o change) bool {
		if !c.voids(&o) {
			return false
		}
		if o.what == keep {
			w.kept--
		}
		c.done = both(o.done, c.done)
		c.shared, c.ended = c.shared || o.shared, c.ended || o.ended
		return true
	})
	if c.what == keep {
		w.kept++
	}
	w.of[c.of] = append(list, c)
}

// voids reports whether an earlier change of the same device has no effect any more.
func (c *change) voids(o *change) bool {
	switch c.what {
	case forget:
		return true
	case extend, unmark:
		return o.what == c.what
	default:
		return (o.what == keep || o.what == drop) && o.filter == c.filter
	}
}

func both(a, b func(error)) func(error) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(err error) {
		a(err)
		b(err)
	}
}

// take removes a batch: all changes, but of a forgotten device no new filters. The messages of these must not be erased with those of the old ones.
func (w *changes) take() (batch changes) {
	all := *w
	*w = changes{}
	for d, list := range all.of {
		n := len(list)
		if list[0].what == forget {
			n = 1
		}
		for i := range list {
			if i < n {
				batch.add(list[i])
			} else {
				w.add(list[i])
			}
		}
		delete(all.of, d)
	}
	return batch
}

// told returns whom to tell what came of the changes.
func (w *changes) told() (tell []func(error)) {
	w.each(func(c *change) {
		if c.done != nil {
			tell = append(tell, c.done)
		}
	})
	return tell
}

// refuse removes the changes that keep filters, and returns whom to tell.
func (w *changes) refuse() (tell []func(error)) {
	for d, list := range w.of {
		w.of[d] = slices.DeleteFunc(list, func(c change) bool {
			if c.what == keep && c.done != nil {
				tell = append(tell, c.done)
			}
			return c.what == keep
		})
		if len(w.of[d]) == 0 {
			delete(w.of, d)
		}
	}
	w.kept = 0
	return tell
}

// each calls f with all changes, those of a device in order.
func (w *changes) each(f func(*change)) {
	for _, list := range w.of {
		for i := range list {
			f(&list[i])
		}
	}
}

// after returns these changes with later ones behind them.
func (w *changes) after(later *changes) (all changes) {
	w.each(func(c *change) { all.add(*c) })
	later.each(func(c *change) { all.add(*c) })
	return all
}

// errFull reports that an app's devices have as many filters as they may have.
var errFull = errors.New("the app's devices keep as many filters as they may")

// Keep stores filters of a device until a time, and calls done once they are on disk.
func (s *Store) Keep(d Device, filters []string, until time.Time, done func(error)) {
	s.mu.Lock()
	if x := s.apps[d.App]; s.waiting.kept+len(filters) > maxQueued || x != nil && x.filters+x.lacks(d, filters) > maxFilters {
		s.mu.Unlock()
		done(errFull)
		return
	}
	defer s.mu.Unlock()
	for i, f := range filters {
		c := change{of: d, what: keep, filter: f, until: until}
		if i == len(filters)-1 {
			c.done = done
		}
		s.add(c)
	}
}

// Drop ends a filter of a device. On this node nothing matches it from now on.
func (s *Store) Drop(d Device, filter string) { s.ends(change{of: d, what: drop, filter: filter}) }

// Forget ends all filters of a device, and erases what waits for it. On this node nothing matches them from now on.
func (s *Store) Forget(d Device) { s.ends(change{of: d, what: forget}) }

// Extend changes until when the filters of a device are kept.
func (s *Store) Extend(d Device, until time.Time) { s.ends(change{of: d, what: extend, until: until}) }

// ends adds a change that keeps no filter.
func (s *Store) ends(c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(&c)
	s.add(c)
}

// end takes the filters that a change ends out of the index. s.mu is held.
func (s *Store) end(c *change) {
	if x := s.apps[c.of.App]; x != nil && (c.what == drop || c.what == forget) {
		c.shared = c.shared || c.what == forget && x.devices[c.of].shares()
		x.change(c)
	}
}

// endWaiting takes the filters out of the index that wait to be ended on disk. s.mu is held.
func (s *Store) endWaiting() {
	s.doing.each(s.end)
	s.waiting.each(s.end)
}

// add queues a change. A store that is being closed carries out what came before alone. s.mu is held.
func (s *Store) add(c change) {
	s.waiting.add(c)
	if !s.running && !s.ended() {
		s.running = true
		s.workers.Go(s.work)
	}
}

// work carries out the changes that wait. The end of a filter that cannot be stored is tried again until the store closes: else a device would get
// messages that it has ended, or a mailbox without a reader would fill.
func (s *Store) work() {
	wait := time.Duration(0)
	for {
		s.mu.Lock()
		s.doing = s.waiting.take()
		batch := s.doing
		if len(batch.of) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		last := s.ended()
		left, err := s.carryOut(&batch)
		if err == nil {
			wait = 0
			continue
		}
		s.cfg.Log.Warn("changes of the filters of MQTT devices could not be stored", "to_be_tried_again", left, "error", err)
		if left == 0 {
			continue
		}
		if last {
			s.cfg.Log.Error("what ends filters of MQTT devices could not be stored before the stop: these filters last until their time is over", "changes", left)
			s.mu.Lock()
			s.waiting = changes{}
			s.mu.Unlock()
			continue
		}
		wait = min(max(2*wait, retryFirst), retryMost)
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.closing:
			t.Stop()
		}
	}
}

// ended reports whether the store is being closed.
func (s *Store) ended() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// carryOut stores a batch, and then erases what waits for devices that are forgotten: nothing matches their filters any more. It returns how many
// changes are to be tried again.
func (s *Store) carryOut(batch *changes) (left int, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	if err := s.commit(ctx, batch); err != nil {
		return s.putBack(batch, err), err
	}
	for _, done := range batch.told() {
		done(nil)
	}
	var again changes
	batch.each(func(c *change) {
		if gone := s.clear(ctx, c); gone != nil {
			err = errors.Join(err, gone)
			again.add(change{of: c.of, what: c.what, rev: c.rev, shared: c.shared, ended: c.ended})
		}
	})
	if err != nil {
		return s.putBack(&again, err), err
	}
	return 0, nil
}

// clear empties the mailbox of a device that is forgotten, once nothing matches its filters any more. If it shared some, the node that has deleted them
// moves what has come by them. What a publish under way stores after that, or a node that stops does not move, is moved when the end is unmarked.
func (s *Store) clear(ctx context.Context, c *change) error {
	switch {
	case c.what == unmark && c.ended:
		return s.move(ctx, c.of, c.rev)
	case c.what != forget || c.shared && !c.ended:
		return nil
	case c.shared:
		if err := s.move(ctx, c.of, anew); err != nil {
			return err
		}
	}
	if err := s.cfg.Mailbox.Erase(ctx, c.of.App, c.of.Mailbox()); err != nil && !errors.Is(err, mailbox.ErrNotFound) {
		return err
	}
	return nil
}

// commit stores a batch. The table is not read meanwhile: a reading from before the commit must not replace the index from after it.
func (s *Store) commit(ctx context.Context, batch *changes) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	var rev int64
	err := s.cfg.DB.Change(ctx, "store filters of MQTT devices", func(ctx context.Context, tx sqltx.Tx) (err error) {
		if _, err := tx.Exec(ctx, countChange); err != nil {
			return err
		}
		batch.each(func(c *change) {
			if err == nil {
				err = c.store(ctx, tx, s.cfg.Now())
			}
		})
		if err != nil {
			return err
		}
		return tx.Each(ctx, "SELECT n FROM revision", nil, func(r sqltx.Row) error { return r.Scan(&rev) })
	})
	if err != nil {
		return err
	}
	var apps map[string]*index
	var read int64
	s.mu.Lock()
	known := s.rev
	s.mu.Unlock()
	if rev != known+1 { // another node has made changes
		if apps, read, err = s.read(ctx); err != nil {
			apps = nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doing = changes{}
	if apps != nil {
		s.apps, s.rev = apps, read
	} else {
		batch.each(func(c *change) { s.of(s.apps, c.of.App).stored(c, rev, s.cfg.Now()) })
		if rev == s.rev+1 { // else the next publish reads what other nodes have changed
			s.rev = rev
		}
	}
	s.endWaiting()
	return nil
}

// putBack has what ends filters tried again after a failure, and returns how much that is. New filters are refused, also those that came meanwhile:
// their clients subscribe again.
func (s *Store) putBack(batch *changes, err error) (left int) {
	tell := batch.told()
	s.mu.Lock()
	s.doing = changes{}
	tell = append(tell, s.waiting.refuse()...)
	batch.refuse()
	batch.each(func(c *change) {
		c.done = nil
		left++
	})
	s.waiting = batch.after(&s.waiting)
	s.mu.Unlock()
	for _, done := range tell {
		done(err)
	}
	return left
}

func (c *change) store(ctx context.Context, tx sqltx.Tx, now time.Time) (err error) {
	key := []any{c.of.App, c.of.Recipient, c.of.Name}
	switch c.what {
	case extend:
		_, err = tx.Exec(ctx, "UPDATE filter SET until = $4 WHERE app = $1 AND recipient = $2 AND device = $3", append(key, c.until.UnixMilli())...)
	case forget:
		rows, err := tx.Exec(ctx, "DELETE FROM filter WHERE app = $1 AND recipient = $2 AND device = $3", key...)
		if err != nil {
			return err
		}
		c.ended = c.ended || rows > 0
		_, err = tx.Exec(ctx, `INSERT INTO ended (app, recipient, device, n, at) SELECT $1, $2, $3, n, $4 FROM revision
			WHERE id = 1 ON CONFLICT (app, recipient, device) DO UPDATE SET n = excluded.n, at = excluded.at`, append(key, now.UnixMilli())...)
		return err
	case unmark:
		rows, err := tx.Exec(ctx, "DELETE FROM ended WHERE app = $1 AND recipient = $2 AND device = $3 AND n = $4", append(key, c.rev)...)
		c.ended = c.ended || rows > 0
		return err
	case drop:
		_, err = tx.Exec(ctx, "DELETE FROM filter WHERE app = $1 AND recipient = $2 AND device = $3 AND filter = $4", append(key, c.filter)...)
	default:
		_, err = tx.Exec(ctx, `INSERT INTO filter (app, recipient, device, filter, until) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (app, recipient, device, filter) DO UPDATE SET until = excluded.until`, append(key, c.filter, c.until.UnixMilli())...)
	}
	return err
}
