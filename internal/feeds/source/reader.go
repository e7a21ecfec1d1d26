package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/foreign"
)

const (
	perRound   = 64               // streams read together
	perStream  = 16               // entries of one of them: whoever has many does not keep the others waiting
	scanEvery  = 30 * time.Second // all streams are looked at, whatever was heard of
	retryLeast = time.Second      // after something failed
	retryMost  = 30 * time.Second //
	mostNoted  = 1_000            // streams of which it was said in the log that something there is no notification
)

// reader reads one source while this server is the one that does.
type reader struct {
	s      *Service
	source Source
	log    *slog.Logger

	mu      sync.Mutex
	reading bool // this server does
	finding string
	err     error // nil: it does not fail
	since   time.Time
	counts  Counts
	noted   map[string]bool
}

// Run reads until ctx ends.
func (r *reader) Run(ctx context.Context, _ func() bool) {
	r.mu.Lock()
	r.reading, r.err = true, nil
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.reading = false
		r.mu.Unlock()
	}()
	for again := retryLeast; ctx.Err() == nil; again = min(2*again, retryMost) {
		worked, err := r.connected(ctx)
		if ctx.Err() != nil {
			return
		}
		if worked {
			again = retryLeast
		}
		r.fails(ctx, err)
		pause(ctx, again)
	}
}

// fails notes why the source is not read now.
func (r *reader) fails(ctx context.Context, err error) {
	r.mu.Lock()
	first := r.err == nil
	if r.err = err; first {
		r.since = r.s.cfg.Now()
	}
	r.mu.Unlock()
	if first {
		r.log.WarnContext(ctx, "source cannot be read; trying again", "error", foreign.Cause(err))
	}
}

// works notes that it is.
func (r *reader) works(ctx context.Context) {
	r.mu.Lock()
	failed := r.err != nil
	r.err = nil
	r.mu.Unlock()
	if failed {
		r.log.InfoContext(ctx, "source is read again")
	}
}

// connected reads over one connection until it is lost. worked says whether everything was looked at once.
func (r *reader) connected(ctx context.Context) (worked bool, err error) {
	streams, err := r.s.cfg.Open(ctx, r.s.target(&r.source))
	if err != nil {
		return false, err
	}
	defer streams.Close()
	r.mu.Lock()
	r.finding = streams.Finding()
	r.mu.Unlock()
	r.log.InfoContext(ctx, "reading", "finding", streams.Finding())

	defer func() {
		r.mu.Lock()
		r.finding = ""
		r.mu.Unlock()
	}()

	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	q := newQueue()
	var wg sync.WaitGroup
	wg.Go(func() { lost(streams.Watch(ctx, q.add, q.miss)) })
	wg.Go(func() { lost(r.scan(ctx, streams, q, &worked)) })
	for err == nil {
		var keys []string
		if keys, err = q.take(ctx, perRound); err == nil {
			err = r.round(ctx, streams, q, keys)
		}
	}
	lost(err)
	wg.Wait()
	return worked, context.Cause(ctx)
}

// scan looks at all streams, at first, whenever something may have been missed, and now and then.
func (r *reader) scan(ctx context.Context, streams Streams, q *queue, worked *bool) error {
	tick := time.NewTicker(scanEvery)
	defer tick.Stop()
	for {
		err := streams.Scan(ctx, func(keys []string) error {
			q.add(keys)
			return q.room(ctx)
		})
		if err != nil {
			return err
		}
		if *worked = true; !q.stuck.Load() {
			r.works(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-q.missed:
		case <-tick.C:
		}
	}
}

// round takes what is in some streams.
func (r *reader) round(ctx context.Context, streams Streams, q *queue, keys []string) error {
	list, err := streams.Read(ctx, keys, perStream)
	if err != nil {
		return err
	}
	b := newBatch(list, r.s.cfg.Now())
	if err := r.publish(ctx, q, b); err != nil {
		return err
	}
	for _, w := range b.wrong {
		if err := streams.Quarantine(ctx, w.key, w.entry, w.err); err != nil {
			return err
		}
		r.note(ctx, w.key, w.err)
	}
	if err := streams.Delete(ctx, b.done); err != nil {
		return err
	}
	r.count(b)
	for _, one := range list {
		// A stream that returned as many entries as one read may have more; if no entry could be taken, the next scan reads it.
		if len(one.Entries) >= perStream && b.took(one.Key) {
			q.add([]string{one.Key})
		}
	}
	return nil
}

// publish publishes a batch and keeps trying while it cannot be stored: what is not taken now is in Redis, and nowhere else.
func (r *reader) publish(ctx context.Context, q *queue, b *batch) error {
	for again := retryLeast; len(b.drafts) > 0; again = min(2*again, retryMost) {
		err := b.judge(r.s.cfg.Publisher.Publish(ctx, r.source.App, b.drafts))
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		q.stuck.Store(true)
		r.fails(ctx, fmt.Errorf("publish what came from %s: %w", r.source.Kind, err))
		pause(ctx, again)
		b.dropExpired(r.s.cfg.Now())
	}
	if q.stuck.CompareAndSwap(true, false) {
		r.works(ctx)
	}
	return nil
}

// note says in the log, once a stream, that something in it is no notification.
func (r *reader) note(ctx context.Context, key string, err error) {
	r.mu.Lock()
	known := r.noted[key]
	if r.noted == nil || len(r.noted) >= mostNoted {
		r.noted = make(map[string]bool)
	}
	r.noted[key] = true
	r.mu.Unlock()
	if !known {
		r.log.WarnContext(ctx, "an entry is no notification and was put into quarantine; others of its stream are not told", "stream", notification.Clip(key), "error", err)
	}
}

func (r *reader) count(b *batch) {
	b.counts.Quarantined = uint64(len(b.wrong))
	r.mu.Lock()
	r.counts.add(&b.counts)
	r.mu.Unlock()
	r.s.totals.add(&b.counts)
}

// show says how the source fares.
func (r *reader) show(info *Info) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info.Counts = r.counts
	info.Finding = r.finding
	switch {
	case !r.reading:
	case r.err != nil:
		info.State, info.Error, info.Since = Failing, foreign.Excerpt(r.err.Error(), string(r.source.Password)), r.since
	case r.finding != "":
		info.State = Reading
	}
}

// state is how the source fares in one word.
func (r *reader) state() State {
	info := Info{State: Waiting}
	r.show(&info)
	return info.State
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// batch holds the entries of one read and how each is to end.
type batch struct {
	drafts []*notification.Draft
	from   []place // drafts[i] came from here
	done   map[string][]string
	wrong  []problem
	counts Counts
}

// place is an entry of a stream.
type place struct {
	key   string
	entry Entry
}

type problem struct {
	place
	err error
}

func newBatch(list []Stream, now time.Time) *batch {
	b := &batch{done: make(map[string][]string)}
	for _, one := range list {
		for _, e := range one.Entries {
			at := place{one.Key, e}
			if e.Draft == nil {
				b.wrong = append(b.wrong, problem{at, e.Wrong})
				continue
			}
			if e.Draft.ExpiresAt.Sub(now) > notification.MaxTTL {
				e.Draft.ExpiresAt = now.Add(notification.MaxTTL) // what mailboxes keep at most
			}
			b.drafts, b.from = append(b.drafts, e.Draft), append(b.from, at)
		}
	}
	b.dropExpired(now)
	return b
}

// dropExpired takes out what nobody may get any more.
func (b *batch) dropExpired(now time.Time) {
	drafts, from := b.drafts, b.from
	b.drafts, b.from = nil, nil
	for i, d := range drafts {
		if !d.ExpiresAt.After(now) {
			b.settle(from[i], &b.counts.Expired)
			continue
		}
		b.drafts, b.from = append(b.drafts, d), append(b.from, from[i])
	}
}

func (b *batch) settle(at place, count *uint64) {
	b.done[at.key] = append(b.done[at.key], at.entry.ID)
	*count++
}

// judge decides each entry's fate by the result of its publish. On an error the remaining drafts could not be stored and are to
// be published again.
func (b *batch) judge(results []delivery.Result) (err error) {
	drafts, from := b.drafts, b.from
	b.drafts, b.from = nil, nil
	for i, r := range results {
		failed := r.Err
		if failed == nil {
			failed = r.Copies[0].Err
		}
		var bad *notification.FieldError
		switch {
		case failed == nil && r.Copies[0].Duplicate:
			b.settle(from[i], &b.counts.Duplicate)
		case failed == nil:
			b.settle(from[i], &b.counts.Stored)
		case errors.As(failed, &bad) && bad.Field == "expires_at":
			b.settle(from[i], &b.counts.Expired) // a moment ago it had not
		case errors.As(failed, &bad), errors.Is(failed, mailbox.ErrConflict):
			b.wrong = append(b.wrong, problem{from[i], failed})
		case errors.Is(failed, mailbox.ErrFull):
			b.counts.Full++
		default:
			err = failed
			b.drafts, b.from = append(b.drafts, drafts[i]), append(b.from, from[i])
		}
	}
	return err
}

// took reports whether anything of a stream is gone now.
func (b *batch) took(key string) bool {
	if len(b.done[key]) > 0 {
		return true
	}
	for _, w := range b.wrong {
		if w.key == key {
			return true
		}
	}
	return false
}
