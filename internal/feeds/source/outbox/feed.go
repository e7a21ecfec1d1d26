package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/feeds/source"
)

const (
	perPage    = 500              // rows of one transaction: some milliseconds of the database's time
	leastPage  = 20               // rows of the first one: their bodies may be long, and the connection slow
	pageBytes  = 4 << 20          // bytes of one transaction's rows
	emitWithin = 10 * time.Second // a transaction stays open while its rows are stored here, which delays ALTER TABLE, and all that waits behind it
	pollLeast  = 50 * time.Millisecond
	pollMost   = time.Second
	anewLeast  = time.Second // a pass begins anew, to find rows that committed late and to try those whose mailbox was full
	anewMost   = 30 * time.Second
	shareOfOld = 10 // reading rows whose mailbox is full again takes at most one part in so many of the time
	lagEvery   = 2 * time.Second
	restEvery  = 15 * time.Second // where no row waits but those that others have locked
	shareOfLag = 20               // counting rows takes at most one part in so many of the time
	mostBehind = 100_000          // rows that are counted: counting all of a large table takes long
	otherMost  = 35 * time.Second // longer than databases keep a session whose client is gone: 20 s and 30 s. Whoever holds out longer reads beside
)

const waitsForOther = "waits for a transaction of another reader of the table to end, 35 seconds at most"

var errSlow = errors.New("rows were not stored within 10 seconds, so their transaction at the source has ended; they are read again")

// feed reads an outbox.
type feed struct {
	t       *source.Target
	dialect *dialect
	table   *table
	c       conn
	pass    pass
	most    int       // rows of the next page
	lagAt   time.Time // when the rows that wait were counted
	lagTook time.Duration
	waited  bool      // some did when they were counted
	otherAt time.Time // since when another reader has a transaction; zero: none has
}

// pass is one way through the table, from its beginning on. A row may become visible behind others with larger numbers, and before some of its own
// transaction. So a page begins at the beginning or behind a row that stays, and a pass never goes on for long where rows may have come before it.
type pass struct {
	began time.Time
	after *key      // last row that stays; nil: none
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
	return needs(f.run(ctx, to), f.table.name)
}

func (f *feed) run(ctx context.Context, to source.Emitter) error {
	if f.t.Resync { // all rows that are there are read anyway
		if err := to.Resynced(ctx); err != nil {
			return err
		}
	}
	f.pass, f.most = pass{began: time.Now(), every: anewLeast}, leastPage
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
	details := f.table.slow
	switch n := f.pass.left; n {
	case 0:
	case 1:
		details = append(slices.Clip(details), "1 row waits, since its mailbox is full")
	default:
		details = append(slices.Clip(details), fmt.Sprintf("%d rows wait, since their mailboxes are full", n))
	}
	to.Detail(strings.Join(details, "; "))
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
		if err := f.begin(ctx, to); err != nil {
			return read{}, fmt.Errorf("begin a transaction: %w", err)
		}
		defer f.c.rollback()
	}
	rows, last, more, passed, err := f.rows(ctx)
	if err != nil {
		return read{}, fmt.Errorf("read rows of %s: %w", f.table.name, err)
	}
	result := read{rows: len(rows), more: more}
	if last == nil {
		return result, nil
	}
	done, stays, err := f.emit(ctx, to, rows)
	if err != nil {
		return result, err
	}
	if len(done) > 0 {
		if result.took, err = f.finish(ctx, done); err != nil {
			return result, fmt.Errorf("finish rows of %s that are stored: %w", f.table.name, err)
		}
	}
	if !passed && result.took == len(done) {
		last = stays
	}
	if last != nil { // some rows stay; those that were taken are gone
		f.pass.after = last
	}
	if f.table.byTime() && last != nil && last.stamp == "" { // rows without created_at have no place in the order
		f.pass.after, result.more = nil, more && result.took > 0
	}
	return result, nil
}

// begin begins a transaction when no other reader of the table has one. A reader that was killed or cut off still holds the rows of a page
// and may not have stored them: those behind would overtake them. The same holds for a node that lost the source and does not know it yet.
func (f *feed) begin(ctx context.Context, to source.Emitter) error {
	for {
		sole, err := f.c.begin(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		switch {
		case sole && f.otherAt.IsZero():
			return nil
		case sole:
			f.otherAt = time.Time{}
			to.Detail("")
			return nil
		case f.otherAt.IsZero():
			f.otherAt = now
			to.Detail(waitsForOther)
		case now.Sub(f.otherAt) >= otherMost:
			return nil
		}
		f.c.rollback()
		if err := rest(ctx, pollLeast); err != nil {
			return err
		}
	}
}

var errNoID = errors.New("a row's id is NULL or a BLOB, so it cannot be told from others: correct it or delete the row")

// rows reads a page of rows. last is the last one; nil: there is none. passed reports that others have locked rows of the page.
func (f *feed) rows(ctx context.Context) (rows []row, last *key, more, passed bool, err error) {
	sql, args := f.table.sel(f.pass.after, f.most)
	var keys []key
	if f.dialect.current {
		if keys, err = f.keys(ctx); err != nil || len(keys) == 0 {
			return nil, nil, false, false, err
		}
		sql, args = f.table.these(keys)
	}
	bytes, lost := 0, false
	err = f.c.query(ctx, sql, args, func(values [][]byte) bool {
		if lost = values[0] == nil; lost {
			return false
		}
		r := f.table.rowOf(values)
		rows = append(rows, r)
		bytes += r.size()
		return bytes < pageBytes
	})
	if err == nil && lost {
		err = errNoID
	}
	if len(rows) > 0 {
		last = &rows[len(rows)-1].key
	}
	cut := bytes >= pageBytes
	more = len(rows) == f.most || cut
	if len(keys) > 0 && !cut {
		last, more = &keys[len(keys)-1], len(keys) == f.most
	}
	passed = !cut && len(keys) > len(rows)
	if f.most = min(2*f.most, perPage); cut {
		f.most = len(rows)
	}
	return rows, last, more, passed, err
}

// keys reads the places of the rows of a page, as one moment has them.
func (f *feed) keys(ctx context.Context) (keys []key, err error) {
	sql, args := f.table.keys(f.pass.after, f.most)
	err = f.c.query(ctx, sql, args, func(values [][]byte) bool {
		keys = append(keys, key{string(values[0]), string(values[1])})
		return true
	})
	return keys, err
}

// emit stores rows, and returns those that are done with. stays is the last one that is not.
func (f *feed) emit(ctx context.Context, to source.Emitter, rows []row) (done []*row, stays *key, err error) {
	if len(rows) == 0 {
		return nil, nil, nil
	}
	entries := make([]source.Entry, len(rows))
	for i := range rows {
		entries[i] = f.table.entry(&rows[i])
	}
	within, cancel := context.WithTimeoutCause(ctx, emitWithin, errSlow)
	defer cancel()
	outcomes, err := to.Emit(within, entries)
	if err != nil {
		return nil, nil, err
	}
	for i, o := range outcomes {
		if o.Fate == source.Full {
			f.pass.left++
			f.pass.full, stays = time.Now(), &rows[i].key
			continue
		}
		done = append(done, &rows[i])
	}
	return done, stays, nil
}

// finish deletes or marks rows, and commits. It returns how many these were.
func (f *feed) finish(ctx context.Context, done []*row) (int, error) {
	if !f.dialect.holds {
		return f.finishEach(ctx, done)
	}
	sql, args := f.table.finish(done)
	n, err := f.c.exec(ctx, sql, args)
	if err == nil && n != int64(len(done)) {
		err = fmt.Errorf("of %d rows %d were changed: look for a policy, rule or trigger that keeps them", len(done), n)
	}
	if err != nil {
		return 0, err
	}
	return len(done), f.c.commit(ctx)
}

// finishEach finishes rows that may have changed since they were read: those that have are read again.
func (f *feed) finishEach(ctx context.Context, done []*row) (took int, err error) {
	if _, err := f.c.begin(ctx); err != nil {
		return 0, err
	}
	defer f.c.rollback()
	for _, r := range done {
		sql, args := f.table.finishSame(r)
		n, err := f.c.exec(ctx, sql, args)
		if err != nil {
			return 0, err
		}
		took += int(n)
	}
	return took, f.c.commit(ctx)
}

// lag reports how many rows wait, and for how long: those that are left, and those that other transactions have locked.
func (f *feed) lag(ctx context.Context, to source.Emitter, r read) error {
	began := time.Now()
	var every time.Duration
	rests := r.rows == r.took && !r.more && f.pass.left == 0
	switch {
	case rests && f.waited: // the last of them may be gone
	case rests:
		every = max(restEvery, shareOfLag*f.lagTook)
	default:
		every = max(lagEvery, shareOfLag*f.lagTook)
	}
	if began.Sub(f.lagAt) < every {
		return nil
	}
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
	f.waited, f.lagAt, f.lagTook = !rests, began, time.Since(began)
	to.Lag(l)
	return nil
}
