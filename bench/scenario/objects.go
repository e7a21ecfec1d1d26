package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
	"godwit.dev/godwit/internal/store"
)

// objectGroup is the group of all objects that are measured.
const objectGroup = "bench"

// errRunning refuses what needs a server of its own.
var errRunning = errors.New("this starts and stops its server by itself: it cannot measure one that runs already")

// ObjectLatency measures how long a version of one object takes to all clients that are registered for it, at several
// rates: ColdNotify's first experiment.
type ObjectLatency struct {
	Load
	Rates []float64 // publishes a second
}

// Run measures each rate.
func (s *ObjectLatency) Run(ctx context.Context) (*report.Result, error) {
	s.Objects, s.ToAll, s.Via = true, true, loadgen.ViaHTTP
	r := s.begin("objects-latency", "objects latency: from a put to every client that is registered",
		append(s.settings(), set("rates", s.Rates))...)
	all := latency.New()
	means := make([][]float64, len(s.Rates))
	err := s.runs(ctx, func(ctx context.Context, n int) error {
		for i, rate := range s.Rates {
			load := s.Load
			load.Rate = rate
			o, err := load.measure(ctx, n)
			if err != nil {
				return fmt.Errorf("%s puts/s: %w", report.Format(rate), err)
			}
			group := report.Format(rate) + " puts/s"
			mean := o.Latency.Summary().Mean
			means[i] = append(means[i], mean)
			r.Add(group, "put to client mean", "ms", mean)
			o.tell(r, group, n)
			all.Merge(o.Latency)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.tellSlope(r, means)
	sum := all.Summary()
	r.Add("all rates", "put to client mean", "ms", sum.Mean)
	r.Add("all rates", "put to client p50", "ms", sum.P50)
	r.Add("all rates", "put to client p99", "ms", sum.P99)
	r.Curves = append([]report.Curve{{Name: "all rates and runs", Points: all.Curve()}}, r.Curves...)
	return r, nil
}

// tellSlope draws the mean over the notifications a second, and says how it grows with them.
func (s *ObjectLatency) tellSlope(r *report.Result, means [][]float64) {
	line := report.Series{Name: "mean latency", Unit: "ms", Over: "notifications a second"}
	for i, rate := range s.Rates {
		line.Points = append(line.Points, [2]float64{rate * float64(s.Clients), report.Median(means[i])})
	}
	r.Series = append([]report.Series{line}, r.Series...)
	if slope, ok := slopeOf(line.Points); ok {
		r.Add("all rates", "mean grows with each notification a second by", "µs", slope*1000)
	}
}

// slopeOf is the slope of the line through points with the least squares.
func slopeOf(points [][2]float64) (slope float64, ok bool) {
	var x, y float64
	for _, p := range points {
		x, y = x+p[0], y+p[1]
	}
	n := float64(len(points))
	var above, below float64
	for _, p := range points {
		above += (p[0] - x/n) * (p[1] - y/n)
		below += (p[0] - x/n) * (p[0] - x/n)
	}
	if below == 0 {
		return 0, false
	}
	return above / below, true
}

// Registering is what scenarios of registrations share.
type Registering struct {
	Common
	Transport string
	Each      int // registrations of each client
	Pool      int // objects that there are
}

func (s *Registering) subscribers(count int) loadgen.SubscriberConfig {
	return loadgen.SubscriberConfig{
		Transport: s.Transport, Prefix: prefix(), Count: count, Concurrency: opening, Heartbeat: heartbeat, Spread: true,
		Following: &loadgen.Following{Group: objectGroup, Objects: s.Each, Pool: max(s.Pool, s.Each)},
	}
}

// ObjectScale measures what clients cost that come one after the other and register: ColdNotify's second experiment.
type ObjectScale struct {
	Registering
	Clients int
	Over    time.Duration // how long their coming takes; 0: as fast as they are served
	Steps   int           // parts in which they come and are measured
}

// Run measures.
func (s *ObjectScale) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("objects-scale", "objects scale: clients come and register",
		set("clients", s.Clients), set("registrations each", s.Each), set("objects", max(s.Pool, s.Each)), set("transport", s.Transport), set("over", s.Over))
	return r, s.runs(ctx, func(ctx context.Context, n int) error { return s.one(ctx, r, n) })
}

func (s *ObjectScale) one(ctx context.Context, r *report.Result, run int) error {
	site, err := s.Testbed.NewSite(ctx, 1)
	if err != nil {
		return err
	}
	defer site.Close()
	used := report.Series{Name: "server CPU", Unit: "cores", Over: "clients"}
	memory := report.Series{Name: "server memory", Unit: "MB", Over: "clients"}
	begun, cpu, here := time.Now(), 0.0, 0
	for step := range s.Steps {
		count := s.Clients*(step+1)/s.Steps - here
		if count == 0 {
			continue
		}
		cfg := s.subscribers(count)
		cfg.Ramp = s.Over / time.Duration(s.Steps)
		w, at := meter.Start(site.PIDs(), 100*time.Millisecond), time.Now()
		_, err := site.Connect(ctx, cfg, 1)
		samples, took := w.Stop(), time.Since(at).Seconds()
		if err != nil {
			return err
		}
		here += count
		s.Testbed.Say("run %d: %d of %d clients are registered", run+1, here, s.Clients)
		if len(samples) > 0 {
			cpu += meter.CPU(samples)
			used.Points = append(used.Points, [2]float64{float64(here), meter.CPU(samples) / took})
			memory.Points = append(memory.Points, [2]float64{float64(here), float64(samples[len(samples)-1].Resident) / mb})
		}
	}
	took := time.Since(begun).Seconds()
	c, err := site.Counts(ctx)
	if err != nil {
		return err
	}
	registrations := float64(here * s.Each)
	r.Add("", "clients that agree with the server", "", float64(c.Agreed))
	r.Add("", "registrations", "/s", registrations/took)
	r.Add("", "took", "s", took)
	if len(used.Points) > 0 {
		r.Add("", "server CPU a registration", "µs", cpu/registrations*1e6)
		r.Add("", "server CPU", "cores", cpu/took)
		r.Add("", "server memory at the end", "MB", memory.Points[len(memory.Points)-1][1])
	}
	r.Add("", "connections lost", "", float64(c.Lost))
	if run == 0 {
		for _, line := range []report.Series{used, memory} {
			if len(line.Points) > 1 {
				r.Series = append(r.Series, line)
			}
		}
	}
	return nil
}

// ObjectRecovery measures how long all registrations take to be agreed again after the server was killed, with and
// without what it had stored: ColdNotify's third experiment.
type ObjectRecovery struct {
	Registering
	Clients []int
}

// Run measures each number of clients.
func (s *ObjectRecovery) Run(ctx context.Context) (*report.Result, error) {
	if s.Testbed.Running != nil {
		return nil, errRunning
	}
	r := s.begin("objects-recovery", "objects recovery: the server is killed, and loses its registrations or not",
		set("clients", s.Clients), set("registrations each", s.Each), set("objects", max(s.Pool, s.Each)), set("transport", s.Transport))
	for _, clients := range s.Clients {
		err := s.runs(ctx, func(ctx context.Context, n int) error { return s.one(ctx, r, clients, n) })
		if err != nil {
			return nil, fmt.Errorf("%d clients: %w", clients, err)
		}
	}
	line := report.Series{Name: "registered again after losing all", Unit: "s", Over: "registrations"}
	for _, clients := range s.Clients {
		f := r.Figure(s.group(clients, "lost"), again)
		line.Points = append(line.Points, [2]float64{float64(clients * s.Each), f.Median})
	}
	if len(line.Points) > 1 {
		r.Series = append(r.Series, line)
	}
	return r, nil
}

// again is the figure that counts.
const again = "all registered again after"

func (s *ObjectRecovery) group(clients int, state string) string {
	return fmt.Sprintf("%s × %d, state %s", report.Format(float64(clients)), s.Each, state)
}

func (s *ObjectRecovery) one(ctx context.Context, r *report.Result, clients, run int) error {
	site, err := s.Testbed.NewSite(ctx, 1)
	if err != nil {
		return err
	}
	defer site.Close()
	s.Testbed.Say("run %d: %d clients register", run+1, clients)
	if _, err := site.Connect(ctx, s.subscribers(clients), s.Workers); err != nil {
		return err
	}
	for _, state := range []string{"lost", "kept"} {
		s.Testbed.Say("run %d: %d clients, state %s", run+1, clients, state)
		if err := s.recover(ctx, r, site, clients, state, run); err != nil {
			return fmt.Errorf("state %s: %w", state, err)
		}
	}
	return nil
}

// recover cuts all clients, kills the server, starts it again and lets all clients come back at once.
func (s *ObjectRecovery) recover(ctx context.Context, r *report.Result, site *testbed.Site, clients int, state string, run int) error {
	_, err := site.Each(ctx, func(*testbed.Subscribers) worker.Request { return worker.Request{Cut: true} })
	if err != nil {
		return err
	}
	server := site.Servers[0]
	forget := replaceRegistrations
	if db := server.Database(); db != nil {
		forget = func(string) error { return dropRegistrations(ctx, db) }
	}
	if state == "kept" {
		forget = nil
	}
	begun := time.Now()
	if err := server.Restart(ctx, forget); err != nil {
		return err
	}
	started := time.Since(begun).Seconds()
	var profile *testbed.Profile
	if s.Testbed.Profile != "" && forget != nil {
		profile = testbed.StartProfile(ctx, server, recoveryProfile(clients), profileName(s.Testbed.Profile, run))
	}
	w := meter.Start(site.PIDs(), 10*time.Millisecond)
	replies, err := site.Each(ctx, func(*testbed.Subscribers) worker.Request {
		return worker.Request{Reconnect: &worker.Reconnect{}}
	})
	samples := w.Stop()
	if err != nil {
		return err
	}
	var slowest float64
	for _, reply := range replies {
		slowest = max(slowest, reply.Seconds)
	}
	c, err := site.Counts(ctx)
	if err != nil {
		return err
	}
	group := s.group(clients, state)
	r.Add(group, again, "s", slowest)
	r.Add(group, "registrations", "/s", float64(clients*s.Each)/slowest)
	r.Add(group, "clients that disagree with the server", "", float64(int64(clients)-c.Agreed))
	r.Add(group, "server started in", "s", started)
	r.Add(group, "server CPU", "s", meter.CPU(samples))
	r.Add(group, "server memory, most", "MB", float64(meter.Peak(samples))/mb)
	return profile.Wait()
}

// recoveryProfile is how long to profile while so many clients come back: longer than that takes, since a server that
// idles adds nothing to its profile.
func recoveryProfile(clients int) time.Duration {
	return time.Second + time.Duration(clients)*500*time.Microsecond
}

// replaceRegistrations has an empty database of objects made for the one that is lost, as an operator does.
func replaceRegistrations(data string) error {
	if err := forgetRegistrations(data); err != nil {
		return err
	}
	_, err := store.Repair(context.Background(), data)
	return err
}

// dropRegistrations removes all objects and registrations of a database.
func dropRegistrations(ctx context.Context, db *testbed.Database) error {
	return db.Exec(ctx, "DROP SCHEMA godwit_object CASCADE")
}

// forgetRegistrations removes the database of objects, as a disk does that is lost.
func forgetRegistrations(data string) error {
	files, err := filepath.Glob(filepath.Join(data, "objects.db*"))
	if err == nil && len(files) == 0 {
		err = errors.New("there is no objects.db")
	}
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	if err != nil {
		return fmt.Errorf("forget the registrations: %w", err)
	}
	return nil
}
