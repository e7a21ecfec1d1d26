package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

// Horizon measures the effect of a transaction left open: the load continues while PostgreSQL cannot remove dead rows, and until it has
// removed them.
type Horizon struct {
	Load
	Before time.Duration // how long the load runs before the transaction begins
	Hold   time.Duration // how long it is open
	After  time.Duration // how long the load continues after it
}

const (
	horizonStep  = 10 * time.Second // interval of measurements
	horizonBurst = 5 * time.Second  // how long publishing runs as fast as possible, to measure the remaining rate
	bursts       = 3
)

// horizonRun is one run.
type horizonRun struct {
	*Horizon
	r    *report.Result
	site *testbed.Site
	pub  *worker.Worker
	db   *testbed.Database

	begun                 time.Time
	received              int64
	size, dead, cpu, late report.Series
}

// Run measures once, which takes as long as its three parts together.
func (s *Horizon) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("cluster-horizon", "cluster horizon: what a transaction costs that somebody leaves open",
		append(s.settings(), set("load before it", s.Before), set("open for", s.Hold), set("load after it", s.After))...)
	return r, s.runs(ctx, func(ctx context.Context, _ int) error { return s.one(ctx, r) })
}

func (s *Horizon) one(ctx context.Context, r *report.Result) error {
	site, err := s.Testbed.NewSite(ctx, 1)
	if err != nil {
		return err
	}
	defer site.Close()
	h := &horizonRun{
		Horizon: s, r: r, site: site, db: site.Servers[0].Database(), begun: time.Now(),
		size: report.Series{Name: "tables and indexes that change", Unit: "MB"}, dead: report.Series{Name: "dead rows", Unit: ""},
		cpu: report.Series{Name: "PostgreSQL CPU a publish and ack", Unit: "µs"}, late: report.Series{Name: "p99 in ten seconds", Unit: "ms"},
	}
	if h.db == nil {
		return testbed.ErrNoPostgres
	}
	p := prefix()
	if _, err := site.Connect(ctx, s.subscribers(p), s.Workers); err != nil {
		return err
	}
	if h.pub, err = site.NewWorker(ctx); err != nil {
		return err
	}
	defer h.pub.Stop()
	cfg := loadgen.PublishConfig{Targets: site.Targets(), Via: s.via(), Publishers: s.Publishers, Size: s.Size, Prefix: p, Recipients: s.Clients}
	if _, err := h.pub.Call(ctx, worker.Request{Publishers: &cfg}); err != nil {
		return err
	}
	if err := h.parts(ctx); err != nil {
		return err
	}
	r.Series = append(r.Series, h.size, h.dead, h.cpu, h.late)
	return nil
}

// parts runs the load before, during and after the open transaction.
func (h *horizonRun) parts(ctx context.Context) error {
	before, err := h.part(ctx, "before", h.Before)
	if err != nil {
		return err
	}
	release, err := h.db.Hold(ctx)
	if err != nil {
		return err
	}
	held, err := h.part(ctx, "while it is open", h.Hold)
	if err := errors.Join(err, release()); err != nil {
		return err
	}
	after, err := h.part(ctx, "after", h.After)
	if err != nil {
		return err
	}
	h.r.Add("", "as fast as it goes, at its end to before", "×", held.fast/before.fast)
	h.r.Add("", "as fast as it goes, after to before", "×", after.fast/before.fast)
	h.r.Add("", "tables at its end to before", "×", held.size/before.size)
	h.r.Add("", "tables after to before", "×", after.size/before.size)
	return nil
}

// horizonPart holds the rate and the size at the end of one part.
type horizonPart struct{ fast, size float64 }

func (h *horizonRun) part(ctx context.Context, name string, span time.Duration) (p horizonPart, err error) {
	var rates []float64
	for until := time.Now().Add(span); time.Now().Before(until); {
		rate, err := h.step(ctx, name, h.Rate, min(horizonStep, max(time.Until(until), time.Second)))
		if err != nil {
			return p, err
		}
		rates = append(rates, rate)
	}
	h.r.Add(name, "publishes accepted", "/s", report.Median(rates))
	// Read sizes first: the publishes below add to them.
	size, dead, err := h.tables(ctx)
	if err != nil {
		return p, err
	}
	h.r.Add(name, "tables and indexes that change", "MB", size)
	h.r.Add(name, "dead rows", "", dead)
	var fast []float64
	for range bursts {
		rate, err := h.step(ctx, "", 0, min(horizonBurst, span/10))
		if err != nil {
			return p, err
		}
		fast = append(fast, rate)
	}
	h.r.Add(name, "publishes accepted as fast as it goes", "/s", report.Median(fast))
	return horizonPart{fast: report.Median(fast), size: size}, nil
}

// step publishes for span and waits until all accepted notifications have arrived.
func (h *horizonRun) step(ctx context.Context, name string, rate float64, span time.Duration) (accepted float64, err error) {
	before, err := h.site.Spent(ctx)
	if err != nil {
		return 0, err
	}
	reply, err := h.pub.Call(ctx, worker.Request{Publish: &worker.Publish{Rate: rate, For: span}})
	if err != nil {
		return 0, err
	}
	n := reply.Published.Accepted
	h.received += n
	c, err := h.site.AwaitReceived(ctx, h.received, arrivals)
	if err != nil {
		return 0, err
	}
	if c.Received < h.received {
		return 0, fmt.Errorf("%d of %d notifications did not arrive", h.received-c.Received, h.received)
	}
	after, err := h.site.Spent(ctx)
	if err != nil {
		return 0, err
	}
	lat, err := h.site.TakeLatency(ctx)
	if err != nil {
		return 0, err
	}
	accepted = float64(n) / reply.Published.Seconds
	if n == 0 {
		return 0, errors.New("nothing was accepted: " + reply.Published.Why)
	}
	if name == "" {
		return accepted, nil
	}
	size, dead, err := h.tables(ctx)
	if err != nil {
		return 0, err
	}
	cpu, sum := after.Since(*before).CPU.Seconds()/float64(n)*1e6, lat.Summary()
	h.r.Add(name+", every ten seconds", "PostgreSQL CPU a publish and ack", "µs", cpu)
	h.r.Add(name+", every ten seconds", "publish to client p50", "ms", sum.P50)
	h.r.Add(name+", every ten seconds", "publish to client p99", "ms", sum.P99)
	at := time.Since(h.begun).Seconds()
	add := func(s *report.Series, v float64) { s.Points = append(s.Points, [2]float64{at, v}) }
	add(&h.size, size)
	add(&h.dead, dead)
	add(&h.cpu, cpu)
	add(&h.late, sum.P99)
	h.Testbed.Say("%s: %s/s accepted, %s µs of PostgreSQL's CPU each, %s MB, %s dead rows", name, report.Format(accepted), report.Format(cpu), report.Format(size), report.Format(dead))
	return accepted, nil
}

// tables returns the size in MB of those tables and indexes of the mailboxes in which rows are deleted or replaced, and their number of
// dead rows. It omits the tables for an hour and for a day: they grow with the stored copies and are dropped whole.
func (h *horizonRun) tables(ctx context.Context) (size, dead float64, err error) {
	const sql = `SELECT sum(pg_total_relation_size(relid))::float8, sum(n_dead_tup)::float8 FROM pg_stat_user_tables
WHERE schemaname = 'godwit_mailbox' AND relname !~ '_[0-9]+$'`
	err = h.db.Row(ctx, sql, &size, &dead)
	return size / mb, dead, err
}
