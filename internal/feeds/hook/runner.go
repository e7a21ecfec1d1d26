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
)

// backoff is the wait after each number of failed attempts; the last value applies to all further attempts.
var backoff = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour,
}

// runner follows the log for one hook.
type runner struct {
	s      *Service
	held   func() bool // reports whether this server still owns the hook
	hook   Hook
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	p     Progress
	dirty bool      // p is not saved
	at    time.Time // time of the event that is being posted; zero: none
}

// progress changes the progress under the lock and returns it.
func (r *runner) progress(change func(p *Progress)) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	if change != nil {
		change(&r.p)
		r.dirty = true
		r.s.touch()
	}
	return r.p
}

// begin records the event that is posted from now on; nil: none.
func (r *runner) begin(e *event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = time.Time{}
	if e != nil {
		r.at = e.At
	}
}

// posting returns the time of the event that is being posted; zero: none.
func (r *runner) posting() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// take returns the progress if it has to be saved.
func (r *runner) take() (Progress, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dirty := r.dirty
	r.dirty = false
	return r.p, dirty
}

// run delivers events until ctx ends or the hook is paused.
func (r *runner) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		p := r.progress(nil)
		if p.Paused != "" {
			return
		}
		evs, last, err := r.s.events.Read(ctx, r.hook.App, p.Cursor, page, true)
		if err != nil {
			if ctx.Err() == nil {
				r.s.log.WarnContext(ctx, "events could not be read for a hook; trying again", "app", r.hook.App, "hook", r.hook.Name, "error", err)
				pause.For(ctx, readAgain)
			}
			continue
		}
		for i := range evs {
			if r.hook.wants(evs[i].Type) && !r.deliver(ctx, &evs[i]) {
				return
			}
			r.progress(func(p *Progress) { p.Cursor = evs[i].ID })
		}
		if last > r.progress(nil).Cursor {
			r.progress(func(p *Progress) { p.Cursor = last })
		}
	}
}

// deliver posts one event until the receiver accepts it. False: the hook stops or pauses.
func (r *runner) deliver(ctx context.Context, e *event.Event) bool {
	r.begin(e)
	defer r.begin(nil)
	id := fmt.Sprintf("%s.%s.%d", r.hook.App, r.hook.Name, e.ID)
	body := encode(e)
	for {
		if wait := r.progress(nil).NextAt.Sub(r.s.now()); wait > 0 {
			pause.For(ctx, wait)
		}
		if ctx.Err() != nil || !r.held() {
			return false
		}
		err := r.traced(ctx, e, id, body)
		if err == nil {
			r.s.accepted.Add(1)
			r.progress(func(p *Progress) {
				p.Delivered++
				p.LastDelivered, p.Failing, p.NextAt = r.s.now().UTC(), time.Time{}, time.Time{}
				p.Attempts, p.LastError = 0, ""
			})
			return true
		}
		if ctx.Err() != nil {
			return false // the event may have arrived; it will be posted again with the same id
		}
		r.s.refused.Add(1)
		if r.failed(ctx, err) {
			return false
		}
	}
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

// failed records a failed attempt and reports whether it pauses the hook.
func (r *runner) failed(ctx context.Context, err error) bool {
	now := r.s.now().UTC()
	var gone *push.GoneError
	var retry *push.RetryError
	p := r.progress(func(p *Progress) {
		if p.Failing.IsZero() {
			p.Failing = now
		}
		wait := backoff[min(p.Attempts, len(backoff)-1)]
		wait += time.Duration(rand.Int64N(int64(wait) / 5)) //nolint:gosec // jitter
		if errors.As(err, &retry) {
			wait = max(wait, retry.After)
		}
		p.Attempts++
		p.NextAt, p.LastError = now.Add(wait), clip(err.Error())
		switch {
		case errors.As(err, &gone):
			p.Paused, p.PausedAt = "the receiver answered 410: it wants no more", now
		case now.Sub(p.Failing) >= giveUp:
			p.Paused, p.PausedAt = fmt.Sprintf("it failed for %d days", int(giveUp/(24*time.Hour))), now
		}
	})
	if p.Attempts == 1 || p.Paused != "" {
		r.s.log.WarnContext(ctx, "hook fails", "app", r.hook.App, "hook", r.hook.Name, "paused", p.Paused, "error", err)
	}
	return p.Paused != ""
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
