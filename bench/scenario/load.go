package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

// Load is a load of publishers and subscribers.
type Load struct {
	Common
	Servers    int
	Clients    int
	Active     int     // clients that get something; 0: all
	Publishers int     // to each server
	Rate       float64 // messages a second; 0: as fast as possible
	Size       int     // bytes of data
	Transport  string
	Via        string // way to publish; empty: the usual one for the transport
	Batch      int
	Burst      int // messages to all that are published in a row, over MQTT
	Window     int
	Warmup     time.Duration
	For        time.Duration
	ToAll      bool
	Prefill    int           // notifications that are delivered and settled before the measurement, so that the store is not empty
	AckNone    bool          // settled by the first write
	Objects    bool          // each message is a new version of one object, which all clients are registered for
	Topic      bool          // each message goes to a topic that all clients subscribe to
	AckAfter   time.Duration // how long clients collect acknowledgements
	Steps      int           // escalation steps of each notification beyond live; none becomes due
	Kept       bool          // inboxes keep each notification
	DeafEvery  int           // each DeafEvery-th client reads nothing; 0: none
	Cluster    bool          // the servers are nodes of one cluster
	At         []int         // the nodes of a cluster that clients connect to; nil: all
	From       []int         // the nodes that receive the publishes; nil: all
	beside     func()        // starts additional work while the load runs; nil: none
}

func (l *Load) settings() []report.Setting {
	rate := "as fast as possible"
	if l.Rate > 0 {
		rate = report.Format(l.Rate) + "/s"
	}
	s := []report.Setting{
		set("clients", l.Clients), set("transport", l.Transport), set("publish", l.via()), set("publishers", l.Publishers),
		set("rate", rate), set("size", fmt.Sprintf("%d B", l.Size)), set("for", l.For),
	}
	if l.via() == loadgen.ViaBatch {
		s = append(s, set("batch", l.Batch))
	}
	if l.Prefill > 0 {
		s = append(s, set("stored before", report.Format(float64(l.Prefill))))
	}
	if l.Testbed.Server.Stubs > 0 {
		s = append(s, set("settled in the store", report.Format(float64(l.Testbed.Server.Stubs))))
	}
	if l.AckNone {
		s = append(s, set("ack", "none"))
	}
	if l.Kept {
		s = append(s, set("inbox", "yes"))
	}
	if l.Steps > 0 {
		s = append(s, set("steps beyond live", l.Steps))
	}
	if l.Objects {
		s = append(s, set("as", "versions of one object"))
	}
	if l.Objects || l.AckAfter > 0 {
		s = append(s, set("acknowledged after", l.AckAfter))
	}
	if l.Cluster {
		s = append(s, set("nodes", l.Servers))
	} else if l.Servers > 1 {
		s = append(s, set("servers", l.Servers))
	}
	if l.Testbed.Server.TLS {
		s = append(s, set("tls", "yes"))
	}
	return s
}

func (l *Load) via() string {
	if l.Via != "" {
		return l.Via
	}
	return viaFor(l.Transport)
}

// Outcome is the result of one run.
type Outcome struct {
	ConnectSeconds float64 // that connecting all clients took
	Published      loadgen.Published
	Counts         loadgen.Counts // over the measured phase
	Expected       int64          // deliveries
	Objects        bool           // deliveries are signals, of which several may be coalesced
	Topic          bool           // deliveries are messages, of which some may be dropped
	Latency        *latency.Histogram
	Seconds        float64 // from the first publish to the last delivery
	Server         []meter.Sample
	Workers        []meter.Sample
	Stolen         float64 // CPU seconds that the machine's host gave to others (steal)
	Ticks          []tick
	Postgres       *testbed.Spent  // resources that PostgreSQL used; nil: the stores are not in PostgreSQL
	Commits        float64         // number of commits of the servers' stores, if Postgres is set
	Shares         []testbed.Share // what each machine measured; nil: no other takes part
}

// tick holds the measurements of one second.
type tick struct {
	seconds   float64
	received  int64
	published int64
	p99       float64
}

// measure runs the load once on a fresh site.
func (l *Load) measure(ctx context.Context, run int) (*Outcome, error) {
	site, err := l.newSite(ctx)
	if err != nil {
		return nil, err
	}
	defer site.Close()
	return l.measureOn(ctx, site, run)
}

func (l *Load) newSite(ctx context.Context) (*testbed.Site, error) {
	if l.Cluster {
		return l.Testbed.NewCluster(ctx, l.Servers)
	}
	return l.Testbed.NewSite(ctx, l.Servers)
}

// targets returns the addresses of some of a site's servers; nil: of all.
func targets(site *testbed.Site, some []int) []loadgen.Target {
	all := site.Targets()
	if some == nil {
		return all
	}
	var picked []loadgen.Target
	for _, i := range some {
		picked = append(picked, all[i])
	}
	return picked
}

// measureOn runs the load once on a site without clients.
func (l *Load) measureOn(ctx context.Context, site *testbed.Site, run int) (*Outcome, error) {
	p := prefix()
	l.Testbed.Say("run %d: connecting %d clients", run+1, l.Clients)
	subs := l.subscribers(p)
	subs.Targets = targets(site, l.At)
	connected, err := site.Connect(ctx, subs, l.Workers)
	if err != nil {
		return nil, err
	}
	if err := l.setUpSteps(ctx, site); err != nil {
		return nil, err
	}
	pub, err := site.NewWorker(ctx)
	if err != nil {
		return nil, err
	}
	defer pub.Stop()
	cfg := l.publishing(site, p)
	if _, err := pub.Call(ctx, worker.Request{Publishers: &cfg}); err != nil {
		return nil, err
	}
	if err := l.prefill(ctx, site, p, run); err != nil {
		return nil, err
	}
	if l.beside != nil {
		l.beside()
	}
	before, err := l.warmUp(ctx, site, pub, run)
	if err != nil {
		return nil, err
	}
	o, err := l.measured(ctx, site, pub, before, run)
	if err != nil {
		return nil, err
	}
	o.ConnectSeconds = connected
	return o, nil
}

// publishing returns the settings of the publishers; prefix is that of the recipients' names.
func (l *Load) publishing(site *testbed.Site, prefix string) loadgen.PublishConfig {
	cfg := loadgen.PublishConfig{
		Targets: targets(site, l.From), Via: l.via(), Publishers: l.Publishers, Size: l.Size, Prefix: prefix, Recipients: cmp.Or(l.Active, l.Clients),
		Shared: l.Cluster, ToAll: l.ToAll, Batch: l.Batch, Burst: l.Burst, AckNone: l.AckNone, DeafEvery: l.DeafEvery, Steps: l.Steps, Kept: l.Kept,
	}
	if l.Topic {
		cfg.Topic = benchTopic
	}
	if l.Objects {
		cfg.Object = objectGroup + "/" + loadgen.ObjectName(0)
	}
	return cfg
}

// setUpSteps sets up, on the servers, the channel that the steps use.
func (l *Load) setUpSteps(ctx context.Context, site *testbed.Site) error {
	if l.Steps == 0 {
		return nil
	}
	for _, s := range site.Servers {
		if err := s.Call(ctx, http.MethodPut, "/v1/channels/"+loadgen.StepChannel, struct{}{}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (l *Load) subscribers(prefix string) loadgen.SubscriberConfig {
	cfg := loadgen.SubscriberConfig{
		Transport: l.Transport, Prefix: prefix, Count: l.Clients, Concurrency: opening, Window: l.Window,
		Heartbeat: heartbeat, Spread: true, DeafEvery: l.DeafEvery, NoAcks: l.AckNone, AckAfter: l.AckAfter,
	}
	if l.Topic {
		cfg.Topic, cfg.NoAcks = benchTopic, true
	}
	if l.Objects {
		cfg.Following = &loadgen.Following{Group: objectGroup, Objects: 1, Pool: 1}
	}
	return cfg
}

// arrivals returns how long deliveries may take after the last publish was answered. It is shorter for signals, because those that were
// coalesced never arrive.
func (l *Load) arrivals() time.Duration {
	if l.Objects {
		return 2 * time.Second
	}
	return arrivals
}

// sampling is the interval of readings of the processes' memory.
const sampling = 100 * time.Millisecond

// benchTopic is the topic that all clients subscribe to.
const benchTopic = "bench.all"

// prefill publishes in large batches until enough notifications are stored, delivered and settled.
func (l *Load) prefill(ctx context.Context, site *testbed.Site, prefix string, run int) error {
	if l.Prefill == 0 {
		return nil
	}
	w, err := site.NewWorker(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	_, err = w.Call(ctx, worker.Request{Publishers: &loadgen.PublishConfig{
		Targets: site.Targets(), Via: loadgen.ViaBatch, Publishers: 4, Size: 100, Prefix: prefix, Recipients: l.Clients,
		Batch: 500, DeafEvery: l.DeafEvery,
	}})
	if err != nil {
		return err
	}
	for stored, heard := int64(0), int64(0); stored < int64(l.Prefill); {
		r, err := w.Call(ctx, worker.Request{Publish: &worker.Publish{For: 2 * time.Second}})
		if err != nil {
			return err
		}
		stored += r.Published.Accepted
		heard += r.Published.Accepted - r.Published.Deaf
		if _, err := site.AwaitReceived(ctx, heard, time.Minute); err != nil {
			return err
		}
		l.Testbed.Say("run %d: %s of %s stored and settled beforehand", run+1, report.Format(float64(stored)), report.Format(float64(l.Prefill)))
	}
	return nil
}

// warmUp publishes for a while and returns the counters after it.
func (l *Load) warmUp(ctx context.Context, site *testbed.Site, pub *worker.Worker, run int) (c loadgen.Counts, err error) {
	start, err := site.Counts(ctx)
	if err != nil {
		return c, err
	}
	if l.Warmup > 0 {
		l.Testbed.Say("run %d: warming up for %s", run+1, l.Warmup)
		r, err := pub.Call(ctx, worker.Request{Publish: &worker.Publish{Rate: l.Rate, For: l.Warmup}})
		if err != nil {
			return c, err
		}
		want := start.Received + start.Gaps + r.Published.Accepted - r.Published.Deaf
		if c, err = site.AwaitReceived(ctx, want, l.arrivals()); err != nil {
			return c, err
		}
	}
	if _, err := site.TakeLatency(ctx); err != nil {
		return c, err
	}
	return site.Counts(ctx)
}

// measured runs the phase that is measured.
func (l *Load) measured(ctx context.Context, site *testbed.Site, pub *worker.Worker, before loadgen.Counts, run int) (*Outcome, error) {
	o := &Outcome{Objects: l.Objects, Topic: l.Topic}
	server := meter.Start(site.PIDs(), sampling)
	workers := meter.Start(append(site.WorkerPIDs(), pub.PID()), sampling)
	profile := l.profile(ctx, site.Servers[0], l.For, run)
	spent, err := l.spending(ctx, site)
	if err != nil {
		return nil, err
	}
	show := l.watch(ctx, site, pub, before, run)
	begun, stolen := time.Now(), meter.Stolen()
	r, err := pub.Call(ctx, worker.Request{Publish: &worker.Publish{Rate: l.Rate, For: l.For}})
	if err != nil {
		show()
		return nil, err
	}
	o.Published = *r.Published
	o.Expected = o.Published.Accepted - o.Published.Deaf
	after, err := site.AwaitReceived(ctx, before.Received+before.Gaps+o.Expected, l.arrivals())
	o.Seconds = time.Since(begun).Seconds()
	o.Stolen = (meter.Stolen() - stolen).Seconds()
	o.Ticks = show()
	o.Server, o.Workers = server.Stop(), workers.Stop()
	if err := errors.Join(err, site.Alive()); err != nil {
		return nil, err
	}
	if err := o.lost(l.Publishers); err != nil {
		return nil, err
	}
	if o.Postgres, o.Commits, err = spent(ctx); err != nil {
		return nil, err
	}
	o.Counts = loadgen.Counts{
		Live: after.Live, Received: after.Received - before.Received, Duplicates: after.Duplicates - before.Duplicates,
		Disorder: after.Disorder - before.Disorder, Lost: after.Lost - before.Lost, Gaps: after.Gaps - before.Gaps, Why: after.Why,
	}
	if o.Latency, err = site.TakeLatency(ctx); err != nil {
		return nil, err
	}
	o.Shares = site.Shares()
	return o, profile.Wait()
}

// spending begins to count PostgreSQL's resource use and the stores' commits. The returned function ends counting and returns both. Without
// PostgreSQL, nothing is counted.
func (l *Load) spending(ctx context.Context, site *testbed.Site) (stop func(context.Context) (*testbed.Spent, float64, error), err error) {
	commits := 0.0
	before, err := site.Spent(ctx)
	if err == nil && before != nil {
		commits, err = site.Commits(ctx)
	}
	return func(ctx context.Context) (*testbed.Spent, float64, error) {
		after, err := site.Spent(ctx)
		if err != nil || after == nil {
			return nil, 0, err
		}
		now, err := site.Commits(ctx)
		spent := after.Since(*before)
		return &spent, now - commits, err
	}, err
}

// watch shows and records each second's measurements until the returned function is called.
func (l *Load) watch(ctx context.Context, site *testbed.Site, pub *worker.Worker, before loadgen.Counts, run int) (stop func() []tick) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan []tick, 1)
	go func() {
		var ticks []tick
		last := tick{received: before.Received}
		tk := time.NewTicker(time.Second)
		defer tk.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				done <- ticks
				return
			case <-tk.C:
			}
			now := tick{seconds: float64(n), published: pub.Last().Published}
			for _, w := range site.Subs {
				t := w.Last()
				now.received += t.Received
				now.p99 = max(now.p99, t.Latency.P99)
			}
			step := now
			step.received -= last.received
			step.published = max(step.published-last.published, 0)
			last = now
			ticks = append(ticks, step)
			u, _ := meter.Total(site.PIDs()) // shown only
			l.Testbed.Say("run %d: %3d s  published %s/s  delivered %s/s  p99 %s ms  server %s MB", run+1, n,
				report.Format(float64(step.published)), report.Format(float64(step.received)), report.Format(step.p99), report.Format(float64(u.Resident/mb)))
		}
	}()
	return func() []tick {
		cancel()
		return <-done
	}
}
