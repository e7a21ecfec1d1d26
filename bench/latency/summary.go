package latency

import (
	"math"
	"time"
)

// Summary holds the numbers of a histogram for tables. Times are in milliseconds.
type Summary struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ms"`
	Sigma float64 `json:"deviation_ms"` // standard deviation
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

// Summary sums the histogram up.
func (h *Histogram) Summary() Summary {
	h.mu.Lock()
	defer h.mu.Unlock()
	ms := func(ns float64) float64 { return math.Round(ns/1e3) / 1e3 }
	at := func(p float64) float64 { return ms(float64(h.h.ValueAtPercentile(p))) }
	return Summary{
		Count: h.h.TotalCount(), Mean: ms(h.h.Mean()), Sigma: ms(h.h.StdDev()), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: ms(float64(h.h.Max())),
	}
}

// Point is one point of a percentile curve.
type Point struct {
	Percentile float64 `json:"p"`
	Millis     float64 `json:"ms"`
}

// Curve returns the percentiles that a plot needs: ever finer steps towards 100, as far as there are enough durations.
func (h *Histogram) Curve() []Point {
	n := h.Count()
	var points []Point
	for nines := 0.0; nines <= 6; nines += 0.1 {
		rest := math.Pow(10, -nines) // the share beyond the percentile
		if float64(n)*rest < 1 {
			break
		}
		p := 100 * (1 - rest)
		points = append(points, Point{p, float64(h.At(p)) / float64(time.Millisecond)})
	}
	return points
}
