package app

//go:generate go run ../../../tools/genboard -o ../../../deploy -page ../../../docs/reference/metrics.md

import (
	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/gateway/admission"
	"godwit.dev/godwit/internal/server/certs"
	"godwit.dev/godwit/internal/server/httpapi/operator"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/store"
)

// Metrics lists the metrics that servers offer to Prometheus: those of this server, and those that TLS, PostgreSQL and several nodes
// add. It leaves out the metrics of a service that Godwit stands in for.
func (a *App) Metrics() []metrics.Described {
	return metrics.Describe(a.registry.Describe, store.DescribePostgres, cluster.Describe, tracing.Describe, func(ch chan<- *prometheus.Desc) {
		ch <- prometheus.NewDesc(expiryName, expiryHelp, []string{"to"}, nil)
	})
}

// figures are those of GET /v1/stats that lie outside mailboxes and sessions.
func (a *App) figures() operator.Figures {
	st := a.reactor.Stats()
	o, t := a.objects.Counts(), a.topics.Counts()
	asked, failed, took := a.requests.Counts()
	var steps operator.StepFigures
	if a.escalations != nil {
		steps.Accepted, steps.Failed = a.escalations.Counts()
	}
	return operator.Figures{
		Steps:       steps,
		Connections: st.Connections, QueuedBytes: st.Queued, PublishLatency: a.publisher.Latency(),
		Objects:  operator.ObjectFigures{Registrations: a.objects.Live(), Changes: o.Changes, Frames: o.Sent, Acks: o.Acked},
		Topics:   operator.TopicFigures{Subscriptions: t.Subscriptions, Publishes: t.Published, Messages: t.Sent, Dropped: t.Dropped},
		Requests: operator.RequestFigures{Total: asked, Failed: failed, Latency: took},
	}
}

const (
	expiryName = "godwit_tls_certificate_expiry_timestamp_seconds"
	expiryHelp = "When the certificate that is shown to clients, or in the cluster to other nodes, ends, in Unix time."
)

// registerExpiry shows when a certificate ends, as it is on disk when it is asked: to clients or to other nodes.
func (a *App) registerExpiry(to string, files *certs.Files) {
	a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: expiryName, Help: expiryHelp,
		ConstLabels: prometheus.Labels{"to": to},
	}, func() float64 { return float64(files.NotAfter().Unix()) }))
}

// registerFigures shows the counters of parts that keep none of their own for Prometheus.
func (a *App) registerFigures() {
	gauge := func(name, help string, f func() float64) {
		a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	counter := func(name, help string, f func() float64) {
		a.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f))
	}
	counter("godwit_log_lines_dropped_total", "Lines of the log that were lost: who reads it stands still or is gone.", func() float64 {
		if a.opts.LogLost == nil {
			return 0
		}
		return float64(a.opts.LogLost())
	})
	gauge("godwit_connections", "Connections on the event loops.",
		func() float64 { return float64(a.reactor.Stats().Connections) })
	gauge("godwit_connections_queued_bytes", "Bytes that wait for clients to take them.",
		func() float64 { return float64(a.reactor.Stats().Queued) })
	for _, why := range admission.Reasons() {
		a.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "godwit_connections_refused_total", Help: "Connections that were refused, or closed because they sent no request in time.",
			ConstLabels: prometheus.Labels{"reason": why.String()},
		}, func() float64 { return float64(a.gate.Refused(why)) }))
	}
	counter("godwit_connections_read_bytes_total", "Bytes read by the event loops since start.",
		func() float64 { return float64(a.reactor.Stats().BytesIn) })
	counter("godwit_connections_written_bytes_total", "Bytes written by the event loops since start.",
		func() float64 { return float64(a.reactor.Stats().BytesOut) })
}
