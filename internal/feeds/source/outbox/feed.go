package outbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/feeds/source"
)

const (
	perPage    = 500              // rows of one transaction: some milliseconds of the database's time
	pageBytes  = 4 << 20          // bytes of one transaction's rows
	emitWithin = 30 * time.Second // a transaction stays open while its rows are stored here, which holds the database's cleaning up
	pollLeast  = 50 * time.Millisecond
	pollMost   = time.Second
	anewLeast  = time.Second      // a pass begins anew, to find rows that committed late and to try those whose mailbox was full
	anewMost   = 30 * time.Second //
	shareOfOld = 10               // reading rows whose mailbox is full again takes at most one part in so many of the time
	lagEvery   = 2 * time.Second
	mostBehind = 100_000 // rows that are counted: counting all of a large table takes long
)

var errSlow = errors.New("rows were not stored within 30 seconds, so their transaction at the source has ended; they are read again")

// feed reads an outbox.
type feed struct {
	t       *source.Target
	dialect *dialect
	table   *table
	c       conn
	pass    pass
	lagAt   time.Time
}

// pass is one way through the table, from its beginning on. A row may become visible behind others with larger numbers, so a pass never
// goes on for long where rows may have come before it.
type pass struct {
	began time.Time
	after *key      // last row that was read; nil: none
	left  int       // rows that stay, since their mailboxes are full
	full  time.Time // when the last of them was seen
	every time.Duration
}

var _ source.Feed = (*feed)(nil)

// Finding implements source.Feed.
func (f *feed) Finding() string { return f.dialect.finding }

// Close implements source.Feed.
func (f *feed) Close() { f.c.close() }

// Run implements source.Feed.
func (f *feed) Run(ctx context.Context, to source.Emitter) error {
	f.table.source = f.t.Name
	if f.t.Resync { // all rows that are there are read anyway
		if err := to.Resynced(ctx); err != nil {
			return err
		}
	}
	f.pass = pass{began: time.Now(), every: anewLeast}
	for idle := pollLeast; ; {
		read, err := f.page(ctx, to)
		if err != nil {
			return err
		}
		if err := f.lag(ctx, to, read); err != nil {
			return err
		}
		now := time.Now()
		if read.more {
			if f.pass.overdue(now) {
				f.pass.anew(now)
			}
			idle = pollLeast
			continue
		}
		f.ended(ctx, to)
		if f.pass.left == 0 || now.Sub(f.pass.began) >= f.pass.pause() {
			f.pass.anew(now)
		}
		if read.took > 0 {
			idle = pollLeast
			continue
		}
		woken, err := f.c.wait(ctx, idle)
		if err != nil {
			return err
		}
		if idle = min(2*idle, pollMost); woken {
			idle = pollLeast
		}
	}
}

// overdue reports whether a pass that has not reached the end should begin anew nevertheless.
func (p *pass) overdue(now time.Time) bool {
	if p.left == 0 {
		return now.Sub(p.began) >= anewLeast
	}
	return now.Sub(p.full) >= p.pause()
}

// pause is the time after which rows whose mailbox is full are tried again.
func (p *pass) pause() time.Duration {
	if p.left == 0 {
		return 0
	}
	return max(p.every, shareOfOld*p.full.Sub(p.began))
}

func (p *pass) anew(now time.Time) {
	every := anewLeast
	if p.left > 0 {
		every = min(2*p.every, anewMost)
	}
	*p = pass{began: now, every: every}
}

// ended reports what a pass has found that reached the end.
func (f *feed) ended(ctx context.Context, to source.Emitter) {
	to.Caught(ctx)
	switch n := f.pass.left; n {
	case 0:
		to.Detail("")
	case 1:
		to.Detail("1 row waits, since its mailbox is full")
	default:
		to.Detail(fmt.Sprintf("%d rows wait, since their mailboxes are full", n))
	}
}

// read is the result of a page.
type read struct {
	rows int
	took int  // rows that were stored or put into quarantine
	more bool // further rows may follow
}

// page reads, stores and finishes some rows in one transaction.
func (f *feed) page(ctx context.Context, to source.Emitter) (read, error) {
	if f.dialect.holds {
		if err := f.c.begin(ctx); err != nil {
			return read{}, fmt.Errorf("begin a transaction: %w", err)
		}
		defer f.c.rollback()
	}
	rows, more, err := f.rows(ctx)
	if err != nil {
		return read{}, fmt.Errorf("read rows of %s: %w", f.table.name, err)
	}
	result := read{rows: len(rows), more: more}
	if len(rows) == 0 {
		return result, nil
	}
	done, err := f.emit(ctx, to, rows)
	if err != nil {
		return result, err
	}
	if result.took = len(done); result.took > 0 {
		if err := f.finish(ctx, done); err != nil {
			return result, fmt.Errorf("finish rows of %s that are stored: %w", f.table.name, err)
		}
	}
	last := rows[len(rows)-1].key
	if f.pass.after = &last; f.table.byTime() && last.stamp == "" { // rows without created_at have no place in the order
		f.pass.after, result.more = nil, more && result.took > 0
	}
	return result, nil
}

// rows reads a page of rows.
func (f *feed) rows(ctx context.Context) (rows []row, more bool, err error) {
	sql, args := f.table.sel(f.pass.after, perPage)
	bytes := 0
	err = f.c.query(ctx, sql, args, func(values [][]byte) bool {
		r := f.table.rowOf(values)
		rows = append(rows, r)
		bytes += r.size()
		return bytes < pageBytes
	})
	return rows, len(rows) == perPage || bytes >= pageBytes, err
}

// emit stores rows, and returns those that are done with.
func (f *feed) emit(ctx context.Context, to source.Emitter, rows []row) (done []string, err error) {
	entries := make([]source.Entry, len(rows))
	for i := range rows {
		entries[i] = f.table.entry(&rows[i])
	}
	within, cancel := context.WithTimeoutCause(ctx, emitWithin, errSlow)
	defer cancel()
	outcomes, err := to.Emit(within, entries)
	if err != nil {
		return nil, err
	}
	for i, o := range outcomes {
		if o.Fate == source.Full {
			f.pass.left++
			f.pass.full = time.Now()
			continue
		}
		done = append(done, rows[i].id)
	}
	return done, nil
}

// finish deletes or marks rows, and commits.
func (f *feed) finish(ctx context.Context, done []string) error {
	if !f.dialect.holds {
		if err := f.c.begin(ctx); err != nil {
			return err
		}
		defer f.c.rollback()
	}
	sql, args := f.table.finish(done)
	if err := f.c.query(ctx, sql, args, nil); err != nil {
		return err
	}
	return f.c.commit(ctx)
}

// lag reports how many rows wait, and for how long.
func (f *feed) lag(ctx context.Context, to source.Emitter, r read) error {
	if r.rows == r.took && !r.more && f.pass.left == 0 {
		to.Lag(source.Lag{})
		f.lagAt = time.Time{}
		return nil
	}
	if time.Since(f.lagAt) < lagEvery {
		return nil
	}
	f.lagAt = time.Now()
	var l source.Lag
	err := f.c.query(ctx, f.table.behind(mostBehind), nil, func(values [][]byte) bool {
		l.Entries, _ = strconv.ParseInt(string(values[0]), 10, 64)
		age, _ := strconv.ParseFloat(string(values[1]), 64)
		l.Time = time.Duration(max(age, 0) * float64(time.Second))
		return true
	})
	if err != nil {
		return fmt.Errorf("count rows of %s: %w", f.table.name, err)
	}
	to.Lag(l)
	return nil
}
