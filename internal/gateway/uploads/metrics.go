package uploads

import (
	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/server/problem"
)

// Outcomes of uploads, by their names in the metrics.
const (
	outKept    = "kept"
	outRefused = "refused" // too large, no room for it, or no worker
	outFailed  = "failed"  // it did not come whole, or could not be stored
)

// metrics count uploads by outcome, and the bytes of those that were kept.
type metrics struct {
	uploads *prometheus.CounterVec
	bytes   prometheus.Counter
}

func newMetrics() metrics {
	m := metrics{
		uploads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_gateway_uploads_total", Help: "Bodies of gateway calls for services that store uploads, since start, by outcome.",
		}, []string{"outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "godwit_gateway_upload_bytes_total", Help: "Bytes of the uploads that were kept since start.",
		}),
	}
	for _, o := range [...]string{outKept, outRefused, outFailed} {
		m.uploads.WithLabelValues(o)
	}
	return m
}

// ended counts an upload whose keeping ended with an error, or nil.
func (m *metrics) ended(err error) {
	outcome := outKept
	if err != nil {
		outcome = outFailed
		if is := problem.From(err).Type; is == problem.TooLarge.New().Type || is == problem.NoSpace.New().Type {
			outcome = outRefused
		}
	}
	m.uploads.WithLabelValues(outcome).Inc()
}

// Refused counts a body that is refused before it is read.
func (s *Store) Refused() { s.metrics.uploads.WithLabelValues(outRefused).Inc() }

// Describe implements prometheus.Collector.
func (s *Store) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect implements prometheus.Collector.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	s.metrics.uploads.Collect(ch)
	s.metrics.bytes.Collect(ch)
}
