package scenario

import (
	"context"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

// ObjectScale measures the resources of clients that connect one after the other and register: ColdNotify's third experiment. All register
// for one object, which gets new versions while clients connect and, after each part of them, while their number stays the same.
type ObjectScale struct {
	Registering
	Clients int
	Over    time.Duration // duration of all connecting together; 0: as fast as the server accepts clients
	Steps   int           // number of parts in which the clients connect and are measured
	Rate    float64       // puts a second; 0: none
	Hold    time.Duration // how long the number of clients stays the same after each part
}

// Run measures.
func (s *ObjectScale) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("objects-scale", "objects scale: clients come and register",
		set("clients", s.Clients), set("registrations each", s.Each), set("objects", max(s.Pool, s.Each)), set("transport", s.Transport), set("over", s.Over),
		set("puts", report.Format(s.Rate)+"/s"), set("number of clients held for", s.Hold))
	return r, s.runs(ctx, func(ctx context.Context, n int) error {
		site, err := s.Testbed.NewSite(ctx, 1)
		if err != nil {
			return err
		}
		defer site.Close()
		return s.one(ctx, r, site, n)
	})
}

// phases are the two kinds of parts, as names of groups of figures.
const (
	growing = "while clients come"
	fixed   = "while their number stays the same"
)

// scaling is one run.
type scaling struct {
	*ObjectScale
	site *testbed.Site
	pub  *worker.Worker // nil: nothing is put
	here int            // clients

	cpu    float64 // CPU seconds that the server used while clients connected
	took   float64 // seconds that their coming took
	memory report.Series
	lines  []report.Series // mean, deviation and CPU in both phases, over the notifications a second
	all    map[string]*latency.Histogram
}

func (s *ObjectScale) one(ctx context.Context, r *report.Result, site *testbed.Site, run int) error {
	x := &scaling{
		ObjectScale: s, site: site, memory: report.Series{Name: serverMemory, Unit: "MB", Over: "clients"},
		all: map[string]*latency.Histogram{growing: latency.New(), fixed: latency.New()},
	}
	for _, chart := range []struct{ name, unit string }{{meanLatency, "ms"}, {deviation, "ms"}, {serverCPU, "cores"}} {
		for _, phase := range []string{growing, fixed} {
			x.lines = append(x.lines, report.Series{Name: phase, Chart: chart.name, Unit: chart.unit, Over: notificationsASecond})
		}
	}
	if s.Rate > 0 {
		pub, err := site.NewWorker(ctx)
		if err != nil {
			return err
		}
		defer pub.Stop()
		x.pub = pub
		_, err = pub.Call(ctx, worker.Request{Publishers: &loadgen.PublishConfig{
			Targets: site.Targets(), Via: loadgen.ViaHTTP, Publishers: 1, Prefix: prefix(), Recipients: s.Clients, ToAll: true,
			Object: objectGroup + "/" + loadgen.CommonObject,
		}})
		if err != nil {
			return err
		}
	}
	for step := range s.Steps {
		count := s.Clients*(step+1)/s.Steps - x.here
		if count == 0 {
			continue
		}
		if err := x.step(ctx, count); err != nil {
			return err
		}
		s.Testbed.Say("run %d: %d of %d clients are registered", run+1, x.here, s.Clients)
	}
	return x.tell(ctx, r, run)
}

// The quantities of the plots.
const (
	meanLatency = "put to client mean"
	deviation   = "put to client deviation"
	serverCPU   = "server CPU"

	serverMemory         = "server memory"
	notificationsASecond = "notifications a second"
)

// step connects more clients, and then measures while their number stays the same.
func (x *scaling) step(ctx context.Context, count int) error {
	cfg := x.subscribers(count)
	cfg.Following.Common = x.pub != nil
	cfg.Ramp = x.Over / time.Duration(x.Steps)
	samples, took, err := x.phase(ctx, growing, cfg.Ramp, float64(x.here)+float64(count)/2, func() error {
		_, err := x.site.Connect(ctx, cfg, 1)
		return err
	})
	if err != nil {
		return err
	}
	x.here += count
	x.cpu, x.took = x.cpu+meter.CPU(samples), x.took+took
	if n := len(samples); n > 0 {
		x.memory.Points = append(x.memory.Points, [2]float64{float64(x.here), float64(samples[n-1].Resident) / mb})
	}
	if x.pub == nil || x.Hold <= 0 {
		return nil
	}
	_, _, err = x.phase(ctx, fixed, x.Hold, float64(x.here), func() error { return nil })
	return err
}

// phase puts versions for span, or for as long as connect takes to connect clients; it returns the samples and the duration in seconds.
func (x *scaling) phase(ctx context.Context, name string, span time.Duration, clients float64, connect func() error) ([]meter.Sample, float64, error) {
	before, err := x.site.Counts(ctx)
	if err != nil {
		return nil, 0, err
	}
	w, begun := meter.Start(x.site.PIDs(), 100*time.Millisecond), time.Now()
	put, puts := make(chan error, 1), int64(0)
	if x.pub != nil && span > 0 {
		go func() { // ends with the call, which phase waits for
			reply, err := x.pub.Call(ctx, worker.Request{Publish: &worker.Publish{Rate: x.Rate, For: span}})
			if err == nil {
				puts = reply.Published.Requests
			}
			put <- err
		}()
	} else {
		put <- nil
	}
	err = connect()
	if failed := <-put; err == nil {
		err = failed
	}
	samples, took := w.Stop(), time.Since(begun).Seconds()
	if err != nil || x.pub == nil {
		return samples, took, err
	}
	// Clients connected before the phase get all puts; new ones get some.
	if _, err := x.site.AwaitReceived(ctx, before.Received+puts*int64(x.here), stragglers); err != nil {
		return nil, 0, err
	}
	h, err := x.site.TakeLatency(ctx)
	if err != nil || h.Count() == 0 {
		return samples, took, err
	}
	rate, sum := clients*x.Rate, h.Summary()
	x.all[name].Merge(h)
	x.point(meanLatency, name, rate, sum.Mean)
	x.point(deviation, name, rate, sum.Sigma)
	if len(samples) > 0 {
		x.point(serverCPU, name, rate, meter.CPU(samples)/took)
	}
	return samples, took, nil
}

// stragglers limits the wait for signals of the last put, which would otherwise count in the next part.
const stragglers = 2 * time.Second

// point adds a point to one phase's line in a chart.
func (x *scaling) point(chart, phase string, clients, value float64) {
	for i := range x.lines {
		if l := &x.lines[i]; l.Chart == chart && l.Name == phase {
			l.Points = append(l.Points, [2]float64{clients, value})
		}
	}
}

func (x *scaling) tell(ctx context.Context, r *report.Result, run int) error {
	c, err := x.site.Counts(ctx)
	if err != nil {
		return err
	}
	each, aRegistration := x.Each, "server CPU a registration"
	if x.pub != nil {
		each, aRegistration = x.Each+1, "server CPU a registration, signals meanwhile included"
	}
	registrations := float64(x.here * each)
	r.Add("", "clients that agree with the server", "", float64(c.Agreed))
	r.Add("", "registrations", "/s", registrations/x.took)
	r.Add("", "took", "s", x.took)
	if n := len(x.memory.Points); n > 0 {
		r.Add("", aRegistration, "µs", x.cpu/registrations*1e6)
		r.Add("", serverCPU, "cores", x.cpu/x.took)
		r.Add("", "server memory at the end", "MB", x.memory.Points[n-1][1])
	}
	r.Add("", "connections lost", "", float64(c.Lost))
	x.tellSignals(r)
	tellShares(r, "", run, x.site.Shares())
	if run > 0 {
		return nil
	}
	for _, line := range append(x.lines, x.memory) {
		if len(line.Points) > 0 {
			r.Series = append(r.Series, line)
		}
	}
	return nil
}

// tellSignals adds the delay of the puts at the clients, and the resources used.
func (x *scaling) tellSignals(r *report.Result) {
	for _, phase := range []string{growing, fixed} {
		h := x.all[phase]
		if h.Count() == 0 {
			continue
		}
		sum := h.Summary()
		r.Add(phase, meanLatency, "ms", sum.Mean)
		r.Add(phase, deviation, "ms", sum.Sigma)
		r.Add(phase, "put to client p99", "ms", sum.P99)
	}
	for _, line := range x.lines {
		if slope, ok := slopeOf(line.Points); ok && line.Chart == serverCPU && line.Name == fixed {
			r.Add(fixed, "server CPU grows with each 1,000 notifications a second by", "cores", slope*1000)
		}
	}
}
