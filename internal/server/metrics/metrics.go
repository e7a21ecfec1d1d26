// Package metrics makes the registry behind /metrics and measures HTTP requests. Every other package owns its
// metrics and registers them with the registerer it is given.
package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// New makes a registry with figures about the process, the Go runtime and the build.
func New(version string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "godwit_build_info", Help: "1, labelled with the version of this server.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	reg.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// HTTP measures requests by route and status class. Both are bounded: routes are the patterns of the mux.
type HTTP struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewHTTP registers the HTTP metrics.
func NewHTTP(reg prometheus.Registerer) *HTTP {
	h := &HTTP{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_http_requests_total", Help: "HTTP requests answered, by route and status class.",
		}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "godwit_http_request_duration_seconds", Help: "Time from a request's headers to its answer, by route.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
	}
	reg.MustRegister(h.requests, h.duration)
	return h
}

// Route holds the metrics of one route, found once so that a request needs no lookup of labels.
type Route struct {
	classes  [5]prometheus.Counter
	duration prometheus.Observer
}

// Route returns the metrics of a route.
func (h *HTTP) Route(pattern string) *Route {
	r := &Route{duration: h.duration.WithLabelValues(pattern)}
	for i := range r.classes {
		r.classes[i] = h.requests.WithLabelValues(pattern, strconv.Itoa(i+1)+"xx")
	}
	return r
}

// Observe counts one answered request.
func (r *Route) Observe(status int, took time.Duration) {
	class := min(max(status/100, 1), len(r.classes))
	r.classes[class-1].Inc()
	r.duration.Observe(took.Seconds())
}
