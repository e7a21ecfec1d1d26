// Package reconcile restores events that the event log has lost: those emitted in the last moments before a crash, and those dropped under
// overload. The mailbox records the events of each copy; an event that the log should hold and lacks is emitted once more, marked
// reconciled.
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
	lookAgain  = 15 * time.Second // after a round that failed
	lookSeldom = 5 * time.Minute  // the longest pause between rounds, used while events keep getting lost, for example on a full disk
	slack      = 10 * time.Second // longest time from an event to its emission: a slow disk had to store the change first
	// settling is how old a change in the mailbox must be before its event counts as missing: the event itself is emitted
	// right after the commit.
	settling  = 3 * time.Second
	maxMissed = 10_000 // most events that one round searches for
	perEmit   = 1_000  // events emitted at once; the round then waits until they are stored
)

// name is the name of the lease whose owner reconciles a log that servers share.
const name = "log"

// Config are the parts of a Reconciler.
type Config struct {
	Log     event.Repairable
	Changes mailbox.Changes
	// Alive names the running servers that share the log, and Own decides which of them repairs it. Both are nil if this server is the only
	// one.
	Alive func(ctx context.Context) ([]string, error)
	Own   lease.Func
	Notes *slog.Logger
}

// Reconciler restores the events that an event log lacks.
type Reconciler struct {
	cfg        Config
	reconciled atomic.Uint64
}

// New makes a Reconciler. It works only while Run runs.
func New(cfg Config) *Reconciler { return &Reconciler{cfg: cfg} }

// Run repairs the log at once and whenever it has lost events, until ctx ends. Its error is always nil: failed reads are repeated.
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

// watch runs rounds. The pauses between them grow while the restored events are lost again.
func (m *Reconciler) watch(ctx context.Context) {
	for every := lookEvery; ctx.Err() == nil; {
		found, err := m.Reconcile(ctx)
		if err != nil && ctx.Err() == nil {
			m.cfg.Notes.WarnContext(ctx, "the event log could not be made good from the mailbox; trying again", "error", err)
		}
		switch {
		case err != nil: // the database was away, for example; events lost in a crash shall be restored within a minute
			every = lookAgain
		case found:
			every = min(2*every, lookSeldom)
		default:
			every = lookEvery
		}
		pause.For(ctx, every)
	}
}

// Reconcile restores the events that the log lacks now, and reports whether the log had gaps.
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

// round is one repair of a log.
type round struct {
	*Reconciler
	from  time.Time // what happened before is there
	since time.Time // for events other than expiries: the log has those that happened before this time
	apps  map[string]*known

	begun   time.Time
	missed  []event.Event // events not found in the log so far
	emitted int
	open    bool // the log may lack further events that are too recent to be recreated now
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
		pause.For(ctx, time.Since(begun)) // a round takes half of the time at most
	}
}

// look finds the events of a copy that the log lacks.
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

// settle emits the events that are still missing after their own emission had time to reach the log. Events from after the round's start
// are left to the server that caused them, or to the next round.
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
