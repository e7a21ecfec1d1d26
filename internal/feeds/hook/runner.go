package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	page      = 100                // events read at once
	readAgain = 5 * time.Second    // wait after a failed read of the log
	giveUp    = 5 * 24 * time.Hour // after this time of failing the hook pauses; the log keeps events for longer
	linger    = 2 * time.Second    // time for a running request to end when the hook stops
	maxError  = 300                // most bytes that are kept of an error
	maxAhead  = 256                // most events that are read and not posted, or posted after one that is not
	maxAtOnce = 32                 // most requests of a hook at once
	quick     = time.Second / 5    // after such an answer one more request may run at once
	slow      = time.Second        // after such an answer half as many may run
)

// backoff is the wait after each number of failed attempts; the last value applies to all further attempts.
var backoff = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour,
}

// runner follows the log for one hook. Events of one recipient are posted in order, each after the receiver has accepted the one before;
// events of several recipients are posted at once.
type runner struct {
	s      *Service
	held   func() bool // reports whether this server still owns the hook
	hook   Hook
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	p     Progress // but for Posted, which the window knows
	win   window
	dirty bool // p is not saved

	// Of run alone.
	outcomes chan outcome
	underway int      // requests
	limit    int      // most requests at once: more while the receiver answers quickly
	failing  *posting // the event that is tried again; nil: none, or not read yet
}

// read is what a read of the log returned.
type read struct {
	events []event.Event
	last   uint64
}

// outcome is how an attempt ended.
type outcome struct {
	of   *posting
	err  error
	took time.Duration
}

// progress changes the progress under the lock and returns it.
func (r *runner) progress(change func(p *Progress)) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	if change != nil {
		change(&r.p)
		r.touch()
	}
	return r.p
}

// touch notes that the progress is to be saved. r.mu is held.
func (r *runner) touch() {
	r.dirty = true
	r.s.touch()
}

// whole returns the progress as it is saved.
func (r *runner) whole() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.p
	p.Posted = r.win.ahead()
	return p
}

// oldest returns the time of the first event that is to be posted; zero: there is none.
func (r *runner) oldest() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.win.oldest()
}

// take returns the progress if it has to be saved.
func (r *runner) take() (Progress, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dirty, p := r.dirty, r.p
	r.dirty = false
	if dirty {
		p.Posted = r.win.ahead()
	}
	return p, dirty
}

// run delivers events until ctx ends or the hook is paused.
func (r *runner) run(ctx context.Context) {
	defer close(r.done)
	ctx, cancel := context.WithCancel(ctx)
	r.outcomes, r.limit = make(chan outcome), 1
	pages := make(chan read)
	var reader sync.WaitGroup
	reader.Go(func() { r.follow(ctx, r.progress(nil).Cursor, pages) })
	defer func() {
		cancel()
		for r.underway > 0 {
			r.ended(ctx, <-r.outcomes)
		}
		reader.Wait()
	}()
	for {
		again, ok := r.start(ctx)
		if !ok {
			return
		}
		from := pages
		if r.full() {
			from = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case page := <-from:
			r.add(&page)
		case o := <-r.outcomes:
			if !r.ended(ctx, o) {
				return
			}
		}
	}
}

// follow reads the log from a cursor on.
func (r *runner) follow(ctx context.Context, cursor uint64, pages chan<- read) {
	for ctx.Err() == nil {
		evs, last, err := r.s.events.Read(ctx, r.hook.App, cursor, page, true)
		if err != nil {
			if ctx.Err() == nil {
				r.s.log.WarnContext(ctx, "events could not be read for a hook; trying again", "app", r.hook.App, "hook", r.hook.Name, "error", err)
				pause.For(ctx, readAgain)
			}
			continue
		}
		if n := len(evs); n > 0 {
			last = max(last, evs[n-1].ID)
		}
		cursor = max(cursor, last)
		select {
		case pages <- read{evs, cursor}:
		case <-ctx.Done():
		}
	}
}

// full reports whether enough events are read ahead.
func (r *runner) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.win.list) >= maxAhead
}

// add takes events that were read.
func (r *runner) add(page *read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range page.events {
		r.win.add(&page.events[i], r.hook.wants(page.events[i].Type))
	}
	r.win.pass(page.last)
	if at := r.win.cursor(); at > r.p.Cursor {
		r.p.Cursor = at
		r.touch()
	}
}

// start begins as many requests as may run. While an event fails, it alone is tried, at the time that the progress names; again is then
// that time. False: the hook is not this server's any more.
func (r *runner) start(ctx context.Context) (again <-chan time.Time, ok bool) {
	p := r.progress(nil)
	fails := !p.Failing.IsZero()
	if fails {
		if r.underway > 0 {
			return nil, true
		}
		if wait := p.NextAt.Sub(r.s.now()); wait > 0 {
			return time.After(wait), true
		}
	}
	for r.underway < r.limit && (!fails || r.underway == 0) {
		if !r.held() {
			return nil, false
		}
		r.mu.Lock()
		f := r.win.next()
		if f != nil {
			f.state = underway
		}
		r.mu.Unlock()
		if f == nil {
			break
		}
		if fails {
			r.failing = f
		}
		r.underway++
		go func() {
			begun := r.s.now()
			err := r.traced(ctx, &f.Event, fmt.Sprintf("%s.%s.%d", r.hook.App, r.hook.Name, f.ID), encode(&f.Event))
			r.outcomes <- outcome{f, err, r.s.now().Sub(begun)}
		}()
	}
	return nil, true
}

// ended takes the outcome of an attempt. False: the hook is paused.
func (r *runner) ended(ctx context.Context, o outcome) bool {
	r.underway--
	if o.err == nil {
		r.s.accepted.Add(1)
		r.accepted(o.of)
		switch {
		case o.took > slow:
			r.limit = max(1, r.limit/2)
		case o.took < quick:
			r.limit = min(maxAtOnce, r.limit+1)
		}
		return true
	}
	r.mu.Lock()
	o.of.state = waiting
	r.mu.Unlock()
	if ctx.Err() != nil {
		return true // the event may have arrived; it will be posted again with the same id
	}
	r.s.refused.Add(1)
	r.limit = 1
	return !r.failed(ctx, o)
}

// accepted notes that the receiver has an event.
func (r *runner) accepted(f *posting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.win.done(f)
	r.p.Cursor = max(r.p.Cursor, r.win.cursor())
	r.p.Delivered++
	r.p.LastDelivered = r.s.now().UTC()
	if r.failing == f {
		r.failing = nil
		r.p.succeed()
	}
	r.touch()
}

// traced posts an event, and adds a span if the notification is traced.
func (r *runner) traced(ctx context.Context, e *event.Event, id string, body []byte) error {
	t := r.s.cfg.Tracer
	if t == nil || e.Note == "" {
		return r.post(ctx, id, body)
	}
	done := t.Posting(e.App, e.To, e.Note, r.hook.Name, string(e.Type))
	err := r.post(ctx, id, body)
	if done != nil {
		done(err)
	}
	return err
}

// post makes one attempt. If the hook stops during the request, the receiver still gets a moment to answer: a cut-off request would be
// repeated, and the receiver would get the event twice.
func (r *runner) post(ctx context.Context, id string, body []byte) error {
	attempt, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	hurry := context.AfterFunc(ctx, func() {
		pause.For(attempt, linger)
		cancel()
	})
	defer hurry()
	return r.s.poster.Post(attempt, r.hook.Secrets, r.hook.URL, id, body)
}

// failed records a failed attempt and reports whether it pauses the hook. Attempts that were under way when the hook began to fail count as
// the one that failed first.
func (r *runner) failed(ctx context.Context, o outcome) bool {
	now := r.s.now().UTC()
	var gone *push.GoneError
	var retry *push.RetryError
	again := true
	p := r.progress(func(p *Progress) {
		again = p.Failing.IsZero() || r.failing == o.of
		if p.Failing.IsZero() {
			p.Failing = now
		}
		if again {
			wait := backoff[min(p.Attempts, len(backoff)-1)]
			wait += time.Duration(rand.Int64N(int64(wait) / 5)) // jitter
			p.Attempts++
			p.NextAt, p.LastError = now.Add(wait), clip(o.err.Error())
		}
		if errors.As(o.err, &retry) {
			p.NextAt = later(p.NextAt, now.Add(retry.After))
		}
		switch {
		case errors.As(o.err, &gone):
			p.Paused, p.PausedAt, p.LastError = "the receiver answered 410: it wants no more", now, clip(o.err.Error())
		case now.Sub(p.Failing) >= giveUp:
			p.Paused, p.PausedAt = fmt.Sprintf("it failed for %d days", int(giveUp/(24*time.Hour))), now
		}
	})
	if again && p.Attempts == 1 || p.Paused != "" {
		r.s.log.WarnContext(ctx, "hook fails", "app", r.hook.App, "hook", r.hook.Name, "paused", p.Paused, "error", o.err)
	}
	return p.Paused != ""
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// encode writes an event in the form of GET /v1/events, with its app.
func encode(e *event.Event) []byte {
	b, _ := json.Marshal(struct { // strings always encode
		ID         string     `json:"event_id"`
		Type       event.Type `json:"type"`
		At         string     `json:"at"`
		Note       string     `json:"id,omitempty"`
		To         string     `json:"to"`
		Over       string     `json:"channel,omitempty"`
		Step       int        `json:"step,omitempty"`
		Detail     string     `json:"detail,omitempty"`
		Reconciled bool       `json:"reconciled,omitempty"`
		App        string     `json:"app"`
	}{
		strconv.FormatUint(e.ID, 10), e.Type, e.At.UTC().Format("2006-01-02T15:04:05.000Z"), e.Note, e.To, e.Channel,
		e.Step, e.Detail, e.Reconciled, e.App,
	})
	return b
}

func clip(s string) string { return s[:min(len(s), maxError)] }
