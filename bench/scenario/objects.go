package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
)

// objectGroup is the group of all objects that are measured.
const objectGroup = "bench"

// errRunning rejects --url for scenarios that start and stop their server.
var errRunning = errors.New("this starts and stops its server by itself: it cannot measure one that runs already")

// ObjectLatency measures how long a version of one object takes to reach all clients that are registered for it, and what that costs the
// server, at several rates and with several numbers of clients: ColdNotify's first experiment varies the rate, its second the clients.
type ObjectLatency struct {
	Load
	Rates   []float64 // publishes a second
	Numbers []int     // of clients; they replace Load.Clients
}

// mostDrawn is the number of measurements whose distributions and courses over time are drawn. More would be illegible, and are drawn over
// the notifications a second alone.
const mostDrawn = 6

// Run measures each number of clients at each rate.
func (s *ObjectLatency) Run(ctx context.Context) (*report.Result, error) {
	s.Objects, s.ToAll, s.Via = true, true, loadgen.ViaHTTP
	r := s.begin("objects-latency", "objects latency: from a put to every client that is registered", s.settings()...)
	all, lines := latency.New(), newByRate()
	err := s.runs(ctx, func(ctx context.Context, n int) error {
		at := 0
		for _, clients := range s.Numbers {
			for _, rate := range s.Rates {
				load := s.Load
				load.Clients, load.Rate = clients, rate
				o, err := load.measure(ctx, n)
				if err != nil {
					return fmt.Errorf("%s: %w", s.group(clients, rate), err)
				}
				s.tell(r, lines, o, s.group(clients, rate), at, rate*float64(clients), n)
				all.Merge(o.Latency)
				at++
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(s.Numbers)*len(s.Rates) > mostDrawn {
		r.Curves, r.Series = nil, nil
	}
	r.Series = append(lines.series(), r.Series...)
	lines.tell(r)
	sum := all.Summary()
	r.Add(allRates, meanLatency, "ms", sum.Mean)
	r.Add(allRates, deviation, "ms", sum.Sigma)
	r.Add(allRates, "put to client p50", "ms", sum.P50)
	r.Add(allRates, "put to client p99", "ms", sum.P99)
	r.Curves = append([]report.Curve{{Name: "all rates and runs", Points: all.Curve()}}, r.Curves...)
	return r, nil
}

// allRates is the group of figures over all measurements.
const allRates = "all rates"

// settings are those of the load, with all rates and numbers of clients in place of one.
func (s *ObjectLatency) settings() []report.Setting {
	all := slices.DeleteFunc(s.Load.settings(), func(one report.Setting) bool { return one.Name == "clients" || one.Name == "rate" })
	numbers := make([]string, len(s.Numbers))
	for i, n := range s.Numbers {
		numbers[i] = strconv.Itoa(n)
	}
	return append([]report.Setting{set("clients", strings.Join(numbers, ", "))}, append(all, set("rates", s.Rates))...)
}

// group names one measurement. It contains the number of clients only if there are several.
func (s *ObjectLatency) group(clients int, rate float64) string {
	name := report.Format(rate) + " puts/s"
	if len(s.Numbers) > 1 {
		name += " to " + report.Format(float64(clients)) + " clients"
	}
	return name
}

// tell adds the outcome of one measurement: the one number at of a run, with so many notifications a second.
func (s *ObjectLatency) tell(r *report.Result, lines *byRate, o *Outcome, group string, at int, notifications float64, run int) {
	sum := o.Latency.Summary()
	r.Add(group, meanLatency, "ms", sum.Mean)
	r.Add(group, deviation, "ms", sum.Sigma)
	o.tell(r, group, run)
	point := map[string]float64{meanLatency: sum.Mean, deviation: sum.Sigma}
	if len(o.Server) > 1 {
		point[serverCPU] = meter.CPU(o.Server) / o.Seconds
		point[serverMemory] = float64(meter.Peak(o.Server)) / mb
	}
	lines.add(at, notifications, point)
}

// byRate collects quantities by the notifications a second, for plots.
type byRate struct {
	rates  []float64              // notifications a second of each measurement
	values map[string][][]float64 // by quantity and measurement: one of each run
}

func newByRate() *byRate { return &byRate{values: map[string][][]float64{}} }

func (b *byRate) add(at int, notifications float64, point map[string]float64) {
	if at == len(b.rates) {
		b.rates = append(b.rates, notifications)
	}
	for name, v := range point {
		if at == len(b.values[name]) {
			b.values[name] = append(b.values[name], nil)
		}
		b.values[name][at] = append(b.values[name][at], v)
	}
}

// line returns the medians of one quantity.
func (b *byRate) line(name string) (points [][2]float64) {
	for at, values := range b.values[name] {
		points = append(points, [2]float64{b.rates[at], report.Median(values)})
	}
	return points
}

// series returns the plots.
func (b *byRate) series() (all []report.Series) {
	for _, q := range []struct{ quantity, name, unit string }{
		{meanLatency, "mean latency", "ms"}, {deviation, "deviation of the latency", "ms"}, {serverCPU, "server CPU by rate", "cores"}, {serverMemory, "server memory by rate", "MB"},
	} {
		if points := b.line(q.quantity); len(points) > 0 {
			all = append(all, report.Series{Name: q.name, Unit: q.unit, Over: notificationsASecond, Points: points})
		}
	}
	return all
}

// tell adds how latency and CPU time grow with the notifications a second.
func (b *byRate) tell(r *report.Result) {
	if slope, ok := slopeOf(b.line(meanLatency)); ok {
		r.Add(allRates, "mean grows with each notification a second by", "µs", slope*1000)
	}
	cpu := b.line(serverCPU)
	if len(cpu) < 2 {
		return
	}
	byNotifications := func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) }
	if least, most := slices.MinFunc(cpu, byNotifications), slices.MaxFunc(cpu, byNotifications); least[1] > 0 && most[0] > least[0] {
		r.Add(allRates, fmt.Sprintf("server CPU at %s notifications/s to that at %s/s", report.Format(most[0]), report.Format(least[0])), "×", most[1]/least[1])
	}
}

// slopeOf returns the slope of the least-squares line through points.
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

// Registering holds the settings that scenarios with registrations share.
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
