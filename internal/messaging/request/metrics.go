package request

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/engine/latency"
	"godwit.dev/godwit/internal/messaging/topic"
)

// Outcomes of requests, by their names in the metrics.
const (
	outAnswered    = "answered"     // status below 500
	outFailed      = "failed"       // the worker answered with a status of 500 or more
	outNobody      = "no_responder" // no worker serves the subject, or the recipient is offline
	outBusy        = "busy"
	outGone        = "worker_gone"
	outTimeout     = "timeout"
	outCanceled    = "canceled"
	outUnavailable = "unavailable"
)

var outcomes = [...]string{outAnswered, outFailed, outNobody, outBusy, outGone, outTimeout, outCanceled, outUnavailable}

// metrics count requests by outcome, never by subject: the number of subjects has no limit.
type metrics struct {
	requests *prometheus.CounterVec
	byName   map[string]prometheus.Counter
	seconds  prometheus.Histogram
	lateOnes prometheus.Counter
	dropped  prometheus.Counter

	total, failures atomic.Uint64
	latency         latency.Histogram // for the console's statistics, with finer percentiles
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_requests_total", Help: "Requests to workers and clients since start, by outcome.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "godwit_request_seconds", Help: "From a request to its answer, of those that were answered.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		lateOnes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "godwit_request_late_answers_total", Help: "Answers since start that nobody waited for: late, twice, or to what was not asked.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "godwit_request_dropped_total", Help: "Requests since start that no worker was given: the server could not keep up, or nobody waited for an answer.",
		}),
		byName: make(map[string]prometheus.Counter, len(outcomes)),
	}
	for _, o := range outcomes {
		m.byName[o] = m.requests.WithLabelValues(o)
	}
	return m
}

func (m *metrics) answered(begun time.Time, status int) {
	outcome := outAnswered
	if status >= 500 {
		outcome = outFailed
		m.failures.Add(1)
	}
	m.total.Add(1)
	m.byName[outcome].Inc()
	took := time.Since(begun)
	m.seconds.Observe(took.Seconds())
	m.latency.Observe(took)
}

// failed counts a request without an answer and returns its error.
func (m *metrics) failed(err error) error {
	outcome := outUnavailable
	if bad := (*BadAnswerError)(nil); errors.As(err, &bad) {
		outcome = outFailed
	}
	for _, o := range [...]struct {
		err  error
		name string
	}{
		{topic.ErrNoResponders, outNobody},
		{ErrOffline, outNobody},
		{ErrBusy, outBusy},
		{ErrWorkerGone, outGone},
		{ErrNoAnswer, outTimeout},
		{context.DeadlineExceeded, outTimeout},
		{context.Canceled, outCanceled},
	} {
		if errors.Is(err, o.err) {
			outcome = o.name
			break
		}
	}
	m.total.Add(1)
	m.failures.Add(1)
	m.byName[outcome].Inc()
	return err
}

func (m *metrics) late()      { m.lateOnes.Inc() }
func (m *metrics) unasked()   { m.dropped.Inc() }
func (m *metrics) lost(n int) { m.dropped.Add(float64(n)) }

// Counts returns the number of requests since the start, the number of those with no answer or a status of 500 or more, and the durations
// of the answered ones.
func (s *Service) Counts() (total, failed uint64, took []latency.Bucket) {
	return s.metrics.total.Load(), s.metrics.failures.Load(), s.metrics.latency.Buckets()
}

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	s.metrics.requests.Collect(ch)
	s.metrics.seconds.Collect(ch)
	s.metrics.lateOnes.Collect(ch)
	s.metrics.dropped.Collect(ch)
}
