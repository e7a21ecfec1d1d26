// Package reconcile makes good what the event log has lost: what was emitted in the last moments before a crash, and what was dropped when too
// much came at once. The mailbox knows what became of each copy; what the log should have and has not is emitted once more, marked reconciled.
package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/mailbox"
)

const (
	lookEvery  = 5 * time.Second  // whether the log lacks anything
	lookAgain  = 15 * time.Second // after it could not be seen
	lookSeldom = 5 * time.Minute  // at most, while it keeps losing what it gets: on a full disk, say
	slack      = 10 * time.Second // an event may have happened so long before it was emitted: a slow disk had to take it first
	// settling is how long what the mailbox says waits for its own event, which is emitted right after the commit.
	settling  = 3 * time.Second
	maxMissed = 10_000 // events that are looked for at once
	perEmit   = 1_000  // events emitted before it is waited for that they are stored
)

// name is what servers that share a log own to make it good.
const name = "log"

// Config are the parts of a Reconciler.
type Config struct {
	Log     event.Repairable
	Changes mailbox.Changes
	// Alive names the servers that share the log and run, and Own decides which of them makes it good. Both nil: this one is the only one.
	Alive func(ctx context.Context) ([]string, error)
	Own   lease.Func
	Notes *slog.Logger
}

// Reconciler makes an event log good.
type Reconciler struct {
	cfg        Config
	reconciled atomic.Uint64
}

// New makes a Reconciler. It works while Run runs.
func New(cfg Config) *Reconciler { return &Reconciler{cfg: cfg} }

// Run makes the log good at once and whenever it has lost something, until ctx ends. Its error is always nil: what cannot be read is tried
// again.
func (m *Reconciler) Run(ctx context.Context) error {
	owns := m.cfg.Own
	if owns == nil {
		owns = lease.Alone(ctx)
	}
	release := owns(name, func(ctx context.Context, _ func() bool) { m.watch(ctx) })
	<-ctx.Done()
	release()
	return nil
}

// watch looks again and again; ever more rarely while what it makes good is lost again.
func (m *Reconciler) watch(ctx context.Context) {
	for every := lookEvery; ctx.Err() == nil; {
		found, err := m.Reconcile(ctx)
		if err != nil && ctx.Err() == nil {
			m.cfg.Notes.WarnContext(ctx, "the event log could not be made good from the mailbox; trying again", "error", err)
		}
		switch {
		case err != nil: // a database that was away, say; what it lost in a crash is to be there again within a minute
			every = lookAgain
		case found:
			every = min(2*every, lookSeldom)
		default:
			every = lookEvery
		}
		pause.For(ctx, every)
	}
}

// Reconcile makes good what the log lacks now, and reports whether there was anything it may have lacked.
func (m *Reconciler) Reconcile(ctx context.Context) (found bool, err error) {
	gaps, err := m.cfg.Log.Gaps(ctx, m.cfg.Alive)
	if err != nil || len(gaps) == 0 {
		return false, err
	}
	r := newRound(m, gaps)
	if err := r.run(ctx); err != nil {
		return true, err
	}
	if !r.open {
		if err := m.cfg.Log.Repaired(ctx, gaps); err != nil {
			return true, err
		}
	}
	m.cfg.Notes.InfoContext(ctx, "events that may have been lost were looked for in the mailbox", "since", r.from, "missing", r.emitted)
	return true, nil
}

var reconciledDesc = prometheus.NewDesc("godwit_events_reconciled_total", "Events that the log had lost and that were made anew from the mailbox.", nil, nil)

// Describe is prometheus.Collector.
func (m *Reconciler) Describe(ch chan<- *prometheus.Desc) { ch <- reconciledDesc }

// Collect is prometheus.Collector.
func (m *Reconciler) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(reconciledDesc, prometheus.CounterValue, float64(m.reconciled.Load()))
}

// round is one time that a log is made good.
type round struct {
	*Reconciler
	from  time.Time // what happened before is there
	since time.Time // but for what has expired: that is there if it was before this
	apps  map[string]*known

	begun   time.Time
	missed  []event.Event // not found in the log so far
	emitted int
	open    bool // it may lack more, which happened too lately to be made anew now
}

func newRound(m *Reconciler, gaps []event.Gap) *round {
	r := &round{Reconciler: m, from: gaps[0].From, since: gaps[0].Since, apps: make(map[string]*known), begun: time.Now()}
	for _, g := range gaps {
		r.from, r.since = earlier(r.from, g.From), earlier(r.since, g.Since)
	}
	r.from = r.from.Add(-slack)
	r.since = earlier(r.since.Add(-slack), r.from)
	return r
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// run goes through the mailbox.
func (r *round) run(ctx context.Context) error {
	for place := int64(0); ; {
		begun := time.Now()
		list, next, err := r.cfg.Changes.Changed(ctx, r.since, place)
		if err != nil {
			return err
		}
		for i := range list {
			if err := r.look(ctx, &list[i]); err != nil {
				return err
			}
		}
		if next == 0 || len(r.missed) >= maxMissed {
			if err := r.settle(ctx); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		place = next
		pause.For(ctx, time.Since(begun)) // half of the time at most is spent on this
	}
}

// look notes what the log lacks of a copy.
func (r *round) look(ctx context.Context, c *mailbox.Change) error {
	k, err := r.known(ctx, c.App)
	if err != nil {
		return err
	}
	want := func(t event.Type, at time.Time) bool {
		since := r.from
		if t == event.Expired {
			since = r.since
		}
		return !at.Before(since)
	}
	for _, e := range appendEvents(nil, c, want) {
		if key := e.Key(); !k.has(key) {
			k.pending[key] = true
			r.missed = append(r.missed, e)
		}
	}
	return nil
}

// settle emits those that are missing still, once what the mailbox said first had time to reach the log. Later events, from after the
// round's start, are left to the server that caused them, or to the next round.
func (r *round) settle(ctx context.Context) error {
	if len(r.missed) == 0 {
		return nil
	}
	pause.For(ctx, settling)
	if err := r.cfg.Log.Flush(ctx); err != nil {
		return err
	}
	cutoff, err := r.cfg.Log.CutOff(ctx, time.Since(r.begun))
	if err != nil {
		return err
	}
	for app, k := range r.apps {
		if err := r.read(ctx, app, k); err != nil {
			return err
		}
	}
	var batch []event.Event
	for i := range r.missed {
		e := &r.missed[i]
		k := r.apps[e.App]
		switch key := e.Key(); {
		case k.reported[key]:
		case e.At.Before(cutoff):
			k.reported[key] = true
			batch = append(batch, *e)
		default:
			r.open = true
		}
		if len(batch) == perEmit || i == len(r.missed)-1 {
			r.cfg.Log.Emit(batch)
			if err := r.cfg.Log.Flush(ctx); err != nil {
				return fmt.Errorf("emit what was missing: %w", err)
			}
			r.emitted += len(batch)
			r.reconciled.Add(uint64(len(batch)))
			batch = batch[:0]
		}
	}
	r.missed = r.missed[:0]
	for _, k := range r.apps {
		clear(k.pending)
	}
	return nil
}
