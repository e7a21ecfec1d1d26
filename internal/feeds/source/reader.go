package source

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/foreign"
)

const (
	retryLeast = time.Second      // after something failed
	retryMost  = 30 * time.Second //
	mostNoted  = 1_000            // most streams remembered as already logged for an invalid entry
)

// reader reads one source while this server owns it.
type reader struct {
	s      *Service
	source Source
	log    *slog.Logger

	mu      sync.Mutex
	reading bool // this server does
	finding string
	caught  bool // all entries have been examined once over this connection
	taking  bool // some have been
	detail  string
	lag     *Lag
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
		r.reading, r.lag, r.detail = false, nil, ""
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
		pause.For(ctx, again*3/4+rand.N(again/2)) // no secret; sources of one server, which was away, return one after the other
	}
}

// fails records why the source cannot be read now.
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

// works records that the source can be read.
func (r *reader) works(ctx context.Context) {
	r.mu.Lock()
	failed := r.err != nil
	r.err = nil
	r.mu.Unlock()
	if failed {
		r.log.InfoContext(ctx, "source is read again")
	}
}

// catchesUp records that all entries have been examined once over this connection, and logs it once for each connection.
func (r *reader) catchesUp(ctx context.Context) {
	r.mu.Lock()
	before, finding := r.caught, r.finding
	r.caught = true
	r.mu.Unlock()
	if !before {
		r.log.InfoContext(ctx, "reading", "finding", finding)
	}
}

// connected reads over one connection until it is lost. worked reports whether the feed has examined all entries once.
func (r *reader) connected(ctx context.Context) (worked bool, err error) {
	kind, err := r.s.kind(r.source.Kind)
	if err != nil {
		return false, err
	}
	e := &emitter{reader: r}
	if e.position, err = r.readPosition(ctx); err != nil {
		return false, err
	}
	to := r.s.target(&r.source)
	to.Position, to.Resync, to.Log = e.position.Feed, r.source.ResyncAt.After(e.position.ResyncAt), r.log
	feed, err := kind.Open(ctx, to)
	if err != nil {
		return false, err
	}
	defer feed.Close()
	r.found(feed.Finding())
	defer r.found("")
	err = feed.Run(ctx, e)
	return r.examined(), err
}

// readPosition returns what the source has noted.
func (r *reader) readPosition(ctx context.Context) (p position, err error) {
	p, err = r.s.position(ctx, &r.source)
	if err != nil {
		return p, err
	}
	if p.Made.Equal(r.source.CreatedAt) {
		return p, nil
	}
	if !p.Made.IsZero() || len(p.Feed) > 0 { // another source had this name
		if err := r.s.cfg.Records.Forget(ctx, r.source.place(), true); err != nil {
			return p, err
		}
	}
	// It is noted at once whose the quarantine is from now on: feeds whose source is its own checkpoint note nothing else.
	p = position{Made: r.source.CreatedAt}
	text, err := json.Marshal(p)
	if err != nil {
		return p, err
	}
	return p, r.s.cfg.Records.Note(ctx, r.source.place(), text)
}

// examined reports whether all entries have been examined once over this connection.
func (r *reader) examined() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.caught
}

// Detail implements Emitter.
func (r *reader) Detail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detail = text
}

// Lag implements Emitter.
func (r *reader) Lag(l Lag) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lag = &l
}

// found records the way in which new entries are found.
func (r *reader) found(finding string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finding, r.caught, r.taking, r.lag = finding, false, false, nil
}

// note logs, once a stream, that one of its entries is no notification.
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

func (r *reader) count(counts *Counts) {
	r.mu.Lock()
	r.counts.add(counts)
	r.taking = r.taking || *counts != (Counts{})
	r.mu.Unlock()
	r.s.totals[r.source.Kind].add(counts)
}

// show adds the source's state and counts to info.
func (r *reader) show(info *Info) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info.Counts, info.Finding, info.Lag = r.counts, r.finding, r.lag
	info.Detail = foreign.Excerpt(r.detail, r.s.secrets(&r.source)...)
	switch {
	case !r.reading:
	case r.err != nil:
		info.State, info.Error, info.Since = Failing, foreign.Excerpt(r.err.Error(), r.s.secrets(&r.source)...), r.since
	case r.caught, r.taking:
		info.State = Running
	}
}
