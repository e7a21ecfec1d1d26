package mailboxdb

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

const (
	// After flushRows new rows the recipients' counters are written to their table. A start reads at most about as many rows to bring the
	// counters up to date.
	flushRows = 1 << 18
	// flushSlice is how many counters one commit writes; mostFlushed while many recipients get a first notification.
	flushSlice  = 500
	mostFlushed = 16 * flushSlice
	// flushTimeout bounds the last flush, at Close.
	flushTimeout = 30 * time.Second
)

// counters tracks recipients whose sequence counter is newer than the table's, and those that may be dropped from memory
// because they have no pending copies. Only the goroutine that commits uses it.
type counters struct {
	dirty    []*recipient
	came     int   // that became dirty since the last slice of a flush
	from     int64 // rows up to this position are included in the table's counters
	flushing bool
	ended    chan struct{} // closed when the flush under way ends
	idlers   []*recipient  // oldest first
}

// note marks r as dirty if its counter has changed.
func (c *counters) note(r *recipient, was uint64) {
	if r.lastSeq != was && !r.dirty && !r.gone {
		r.dirty = true
		c.came++
		c.dirty = append(c.dirty, r)
	}
}

// idle queues r for removal from memory if it has no pending copies.
func (c *counters) idle(r *recipient) {
	if len(r.list) == 0 && !r.idling && !r.gone {
		r.idling = true
		c.idlers = append(c.idlers, r)
	}
}

// afterCommit copies the log early while space is scarce, so that the ballast suffices for the rest if the disk fills up. It also drops
// idle recipients beyond the limit, and starts a flush of counters after enough rows.
func (s *Store) afterCommit() {
	c := &s.counters
	if s.db.Uncopied() > max(s.cfg.Ballast/4, minCopyAfter/2) && s.space.Scarce() {
		s.db.CopyLog()
	}
	if over := len(c.idlers) - s.cfg.MaxIdle; over > s.cfg.MaxIdle/64 { // many at once: each time moves the queue
		s.forget(over)
	}
	if !c.flushing && (s.pos-c.from >= flushRows || len(c.dirty) > s.cfg.MaxIdle/2) {
		s.startFlush()
	}
}

// forget drops idle recipients from memory, the longest idle first. Those whose counter must be flushed stay for now.
func (s *Store) forget(n int) {
	c := &s.counters
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range c.idlers[:n] {
		switch {
		case len(r.list) > 0 || r.gone || r.touched:
			r.idling = false
		case r.dirty:
			c.idlers = append(c.idlers, r)
		default:
			r.idling, r.gone = false, true
			s.expiries.remove(r)
			r.app.drop(r)
		}
	}
	c.idlers = slices.Delete(c.idlers, 0, n)
}

// flush is one run of writing counters: it writes slices one after the other, then the position up to which they are exact. A recipient
// stays dirty, and so in memory, until its slice has committed. A slice grows with those that have become dirty since the last one, so that they do not
// become clean more slowly than they come.
type flush struct {
	s     *Store
	upTo  int64
	left  []*recipient
	saved []uint64   // counters written by the last slice, those of the first recipients in left
	done  chan error // nil: nobody waits
}

func (s *Store) startFlush() { s.db.SubmitBulk(s.newFlush()) }

func (s *Store) newFlush() *flush {
	c := &s.counters
	f := &flush{s: s, upTo: s.pos, left: c.dirty}
	c.dirty, c.flushing, c.ended = nil, true, make(chan struct{})
	slices.SortFunc(f.left, func(a, b *recipient) int { return cmp.Compare(a.key, b.key) })
	return f
}

func (f *flush) Size() (rows, bytes int) { return min(len(f.left), flushSlice), 0 }

func (f *flush) Apply(*sqlite.Conn) error {
	f.settleSlice()
	c := &f.s.counters
	slice := min(max(flushSlice, c.came), mostFlushed, len(f.left))
	c.came = 0
	for _, r := range f.left[:slice] {
		if !r.gone {
			if err := f.s.saveSeq(r); err != nil {
				return err
			}
		}
		f.saved = append(f.saved, r.lastSeq)
	}
	if len(f.saved) < len(f.left) {
		return nil
	}
	return f.s.saveMeta("flushed_pos", f.upTo)
}

// settleSlice marks the recipients of the committed slice as clean.
func (f *flush) settleSlice() {
	c := &f.s.counters
	for i, seq := range f.saved {
		if r := f.left[i]; r.lastSeq == seq {
			r.dirty = false
		} else {
			c.dirty = append(c.dirty, r)
		}
	}
	f.left, f.saved = f.left[len(f.saved):], f.saved[:0]
}

// Done continues with the next slice. After an error it leaves the rest to the next run.
func (f *flush) Done(err error) {
	if err != nil {
		f.saved = nil
	} else if len(f.saved) < len(f.left) {
		f.s.db.SubmitBulk(f)
		return
	}
	f.s.db.SubmitBulk(&flushEnd{f: f, err: err})
}

// flushEnd ends a flush on the goroutine that commits, which alone may change counters.
type flushEnd struct {
	f    *flush
	err  error
	came bool
}

func (e *flushEnd) Size() (rows, bytes int) { return 1, 0 }

func (e *flushEnd) Apply(*sqlite.Conn) error {
	c := &e.f.s.counters
	e.came = true
	e.f.settleSlice()
	c.dirty = append(c.dirty, e.f.left...)
	e.f.left = nil
	c.flushing = false
	close(c.ended)
	if e.err == nil {
		c.from = max(c.from, e.f.upTo)
	}
	return nil
}

// Done submits the op again if its commit failed because of another op; its own writes cannot fail.
func (e *flushEnd) Done(err error) {
	var fatal *sqlitedb.FatalError
	if !e.came && !errors.Is(err, sqlitedb.ErrClosed) && !errors.As(err, &fatal) {
		e.f.s.db.SubmitBulk(e)
		return
	}
	if e.f.done != nil {
		e.f.done <- e.err
	}
}

func (s *Store) saveSeq(r *recipient) error {
	s.stmts.saveSeq.BindInt64(1, int64(r.key))
	s.stmts.saveSeq.BindInt64(2, int64(r.lastSeq))
	return exec(s.stmts.saveSeq)
}

func (s *Store) saveMeta(name string, value int64) error {
	s.stmts.saveMeta.BindText(1, name)
	s.stmts.saveMeta.BindInt64(2, value)
	return exec(s.stmts.saveMeta)
}

// flushCounters writes all counters and waits until they are committed, so that the next start need not read rows for them.
func (s *Store) flushCounters() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	for {
		var f *flush
		var ended chan struct{}
		err := s.db.Do(ctx, func(*sqlite.Conn) error {
			if s.counters.flushing {
				ended = s.counters.ended
			} else if f == nil {
				f = s.newFlush()
				f.done = make(chan error, 1)
			}
			return nil
		})
		if err != nil {
			if f != nil {
				s.db.SubmitBulk(&flushEnd{f: f, err: err})
			}
			return storeError("flush counters", err)
		}
		if f != nil {
			s.db.SubmitBulk(f)
			return storeError("flush counters", <-f.done)
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return storeError("flush counters", ctx.Err())
		}
	}
}
