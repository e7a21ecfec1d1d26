package sink

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	batchEvents = 20_000      // most events of a batch
	batchFor    = time.Second // how long a batch waits for more events after its first one
	page        = 5_000       // events read at once
	retryLeast  = time.Second // shortest wait after a refused batch
	retryMost   = time.Minute //
	readAgain   = 5 * time.Second
	standstill  = time.Minute     // interval at which the cursor of an idle app's sink is saved
	saveWithin  = 5 * time.Second // time limit for saving progress
)

// Runner writes one sink's events while this server owns the sink.
type Runner struct {
	Sink     Sink
	Events   event.Log
	Past     Past // nil: events that the log has deleted go unnoticed
	Progress ProgressStore
	Writer   Writer
	Now      func() time.Time
	Log      *slog.Logger

	counts  *counts
	epoch   int64
	mu      sync.Mutex
	p       Progress
	err     error     // why the last attempt failed; nil: it succeeded
	since   time.Time // since when it fails
	started begun
	room    []event.Event // memory of the last batch; reused while batches are large
}

// Run writes until ctx ends, the sink stops or another server owns it. It calls held before each write.
func (r *Runner) Run(ctx context.Context, held func() bool) error {
	epoch, p, err := r.Progress.OwnSinkProgress(ctx, r.Sink.App, r.Sink.Kind)
	if err != nil {
		return err
	}
	r.epoch = epoch
	r.change(func(now *Progress) { *now = p.begin(&r.Sink, r.Events.Last()) })
	for ctx.Err() == nil && held() && r.Show().Stopped == "" {
		if err := r.step(ctx, held); err != nil {
			return err
		}
	}
	return nil
}

// step writes the next batch. It fails if the progress cannot be saved.
func (r *Runner) step(ctx context.Context, held func() bool) error {
	var evs []event.Event
	var last uint64
	missed, err := r.missed(ctx)
	if err == nil && !missed {
		if evs, last, err = r.batch(ctx); err == nil {
			missed, err = r.missed(ctx) // events may have been deleted before they were read
		}
	}
	switch {
	case err != nil:
		r.unread(ctx, err)
		return nil
	case missed:
		return r.makeUp(ctx, held)
	}
	return r.hand(ctx, held, evs, last)
}

// unread logs that events could not be read, and waits before the next attempt.
func (r *Runner) unread(ctx context.Context, err error) {
	if ctx.Err() == nil {
		r.Log.WarnContext(ctx, "events could not be read for a sink; trying again", "error", err)
		pause.For(ctx, readAgain)
	}
}

// Show returns the sink's progress.
func (r *Runner) Show() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.p
}

// Failing returns why the next batch is refused, and since when; nil: it was not refused.
func (r *Runner) Failing() (err error, since time.Time) { //nolint:revive,staticcheck // it is what is asked for
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err, r.since
}

func (r *Runner) change(f func(p *Progress)) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.p)
	return r.p
}

// save writes the progress, even when the server stops: otherwise events already written would be written again.
func (r *Runner) save(ctx context.Context) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), saveWithin)
	defer done()
	p := r.Show()
	return r.Progress.SaveSinkProgress(ctx, r.Sink.App, r.Sink.Kind, r.epoch, &p)
}

// batch gathers events until there are enough or the first has waited long enough. A batch that was under way at the last stop is gathered
// again with the same events.
func (r *Runner) batch(ctx context.Context) (evs []event.Event, last uint64, err error) {
	p := r.Show()
	last = p.Cursor
	evs = r.room[:0]
	gather, done := context.WithCancel(ctx)
	defer done()
	enough := time.AfterFunc(standstill, done)
	defer enough.Stop()
	for len(evs) < batchEvents {
		got, upto, err := r.Events.Read(gather, r.Sink.App, last, min(page, batchEvents-len(evs)), p.Upto <= p.Cursor)
		if err != nil && gather.Err() == nil || ctx.Err() != nil {
			return nil, 0, err
		}
		if p.Upto > p.Cursor {
			for len(got) > 0 && got[len(got)-1].ID > p.Upto {
				got, upto = got[:len(got)-1], p.Upto
			}
		}
		if len(evs) == 0 && len(got) > 0 && p.Upto <= p.Cursor {
			enough.Reset(batchFor)
		}
		evs, last = append(evs, got...), max(last, upto)
		if gather.Err() != nil || p.Upto > p.Cursor && (len(got) == 0 || last >= p.Upto) {
			break
		}
	}
	return evs, last, nil
}

// hand writes a batch. Before the batch leaves, it saves that the batch is under way.
func (r *Runner) hand(ctx context.Context, held func() bool, evs []event.Event, last uint64) error {
	if len(evs) == 0 && last <= r.Show().Cursor {
		return nil
	}
	if len(evs) > 0 {
		r.change(func(p *Progress) { p.Upto = evs[len(evs)-1].ID })
		if err := r.save(ctx); err != nil {
			return err
		}
		r.started.fill(evs)
		if taken, err := r.write(ctx, held, evs); !taken {
			return err
		}
	}
	r.change(func(p *Progress) {
		p.Cursor, p.Upto = last, 0
		if p.Written += uint64(len(evs)); len(evs) > 0 {
			p.Last = r.Now().UTC()
		}
	})
	r.keep(evs)
	return r.save(ctx)
}

// keep keeps the memory of a large batch for the next one.
func (r *Runner) keep(evs []event.Event) {
	clear(evs)
	r.room = nil
	if len(evs) >= batchEvents/2 {
		r.room = evs[:0]
	}
}

// write tries until the sink accepts the batch.
func (r *Runner) write(ctx context.Context, held func() bool, evs []event.Event) (taken bool, err error) {
	for failures := 0; ; failures++ {
		if !held() {
			return false, nil
		}
		err := r.Writer.Write(ctx, evs)
		if err == nil {
			r.fails(ctx, nil)
			r.counts.written.Add(uint64(len(evs)))
			return true, nil
		}
		if ctx.Err() != nil {
			return false, nil
		}
		r.fails(ctx, err)
		if reason, is := stopped(err); is {
			r.change(func(p *Progress) { p.Stopped, p.Asked = reason, r.Sink.UpdatedAt })
			return false, r.save(ctx)
		}
		pause.For(ctx, again(failures, err))
	}
}

// fails records the result of an attempt: err, or nil for an accepted batch.
func (r *Runner) fails(ctx context.Context, err error) {
	r.mu.Lock()
	first, over := r.err == nil && err != nil, r.err != nil && err == nil
	if r.err = err; first {
		r.since = r.Now()
	}
	r.mu.Unlock()
	switch {
	case first:
		r.Log.WarnContext(ctx, "sink takes no events; trying again", "error", forLog(err))
	case over:
		r.Log.InfoContext(ctx, "sink takes events again")
	}
}

// forLog is the part of an error that may be logged; the app's admin can read all of it in the sink's status.
func forLog(err error) string {
	var stop *StopError
	var again *push.RetryError
	switch {
	case errors.As(err, &stop):
		return cmp.Or(stop.Plain, stop.Reason)
	case errors.As(err, &again) && again.Plain != "":
		return again.Plain
	}
	return push.ForLog(err)
}
