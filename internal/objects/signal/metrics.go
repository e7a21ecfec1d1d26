package signal

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are plain atomics, so that the hot path costs one addition; they are read when metrics are scraped.
type counts struct {
	changes, coalesced, sent, resent, acked, refused, resyncs, collected atomic.Uint64
}

// Counts are the numbers of events since the start, for metrics and tests.
type Counts struct{ Changes, Sent, Resent, Acked, Resyncs uint64 }

// Counts returns the counts since start.
func (s *Service) Counts() Counts {
	c := &s.counts
	return Counts{c.changes.Load(), c.sent.Load(), c.resent.Load(), c.acked.Load(), c.resyncs.Load()}
}

// Live returns the number of registrations of live sessions.
func (s *Service) Live() int { return int(s.index.n.Load()) }

var (
	descRegs      = prometheus.NewDesc("godwit_registrations", "Registrations for objects of live sessions on this node.", nil, nil)
	descClients   = prometheus.NewDesc("godwit_object_clients", "Devices and sessions with registrations that are live or not wholly stored.", nil, nil)
	descChanges   = prometheus.NewDesc("godwit_object_changes_total", "Changes of objects stored since start.", nil, nil)
	descCoalesced = prometheus.NewDesc("godwit_object_changes_coalesced_total", "Changes since start that nobody waited for or that joined one already waiting for fan-out.", nil, nil)
	descSent      = prometheus.NewDesc("godwit_object_frames_total", "Object frames written to sessions since start, redeliveries included.", nil, nil)
	descResent    = prometheus.NewDesc("godwit_object_redeliveries_total", "Object frames written again for want of an acknowledgement since start.", nil, nil)
	descAcked     = prometheus.NewDesc("godwit_object_acks_total", "Object acknowledgements received since start.", nil, nil)
	descRefused   = prometheus.NewDesc("godwit_registrations_refused_total", "Registrations refused for good since start.", nil, nil)
	descResyncs   = prometheus.NewDesc("godwit_registration_resyncs_total", "Sets of registrations that clients sent whole since start.", nil, nil)
	descCollected = prometheus.NewDesc("godwit_object_clients_collected_total", "Clients whose registrations were dropped since start because they stayed away.", nil, nil)
)

// Collect implements prometheus.Collector.
func (m metricsOf) Collect(ch chan<- prometheus.Metric) {
	s := m.Service
	ch <- prometheus.MustNewConstMetric(descRegs, prometheus.GaugeValue, float64(s.Live()))
	ch <- prometheus.MustNewConstMetric(descClients, prometheus.GaugeValue, float64(s.roster.n.Load()))
	for _, c := range []struct {
		desc *prometheus.Desc
		n    *atomic.Uint64
	}{
		{descChanges, &s.counts.changes},
		{descCoalesced, &s.counts.coalesced},
		{descSent, &s.counts.sent},
		{descResent, &s.counts.resent},
		{descAcked, &s.counts.acked},
		{descRefused, &s.counts.refused},
		{descResyncs, &s.counts.resyncs},
		{descCollected, &s.counts.collected},
	} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.n.Load()))
	}
}

// metricsOf keeps the collector's methods apart from the service's own Collect.
type metricsOf struct{ *Service }

// Describe implements prometheus.Collector.
func (m metricsOf) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Metrics is the service's collector.
func (s *Service) Metrics() prometheus.Collector { return metricsOf{s} }
