package scenario

import (
	"context"
	"errors"
	"fmt"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
)

// objectGroup is the group of all objects that are measured.
const objectGroup = "bench"

// errRunning rejects --url for scenarios that start and stop their server.
var errRunning = errors.New("this starts and stops its server by itself: it cannot measure one that runs already")

// ObjectLatency measures how long a version of one object takes to reach all clients that are registered for it, at several rates:
// ColdNotify's first experiment.
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

// tellSlope plots the mean delay over the notifications a second, and adds the slope as a figure.
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
