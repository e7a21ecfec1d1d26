package sink

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	writtenDesc = prometheus.NewDesc("godwit_sink_events_total", "Events that sinks have taken from this server since its start.", []string{"sink"}, nil)
	gapsDesc    = prometheus.NewDesc("godwit_sink_gaps_total", "Times since the start that the event log had deleted events before a sink of this server had them.", []string{"sink"}, nil)
	anewDesc    = prometheus.NewDesc("godwit_sink_reconciled_total", "Events that sinks have taken from this server since its start and that were made anew from the mailboxes, because the log had deleted them.", []string{"sink"}, nil)
	sinksDesc   = prometheus.NewDesc("godwit_sinks", "Sinks that are switched on, by state.", []string{"sink", "state"}, nil)
	lagDesc     = prometheus.NewDesc("godwit_sink_lag_seconds", "How long ago the oldest event happened that a sink of this server has still to take; 0 if there is none.", []string{"sink"}, nil)
)

// counts are the counters of all sinks of a kind, since the start.
type counts struct{ written, reconciled, gaps atomic.Uint64 }

// Lag is the age of the oldest event that the sink has not written; 0 if it has written all.
func (i *Info) Lag(now time.Time) time.Duration {
	if i.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(i.Oldest))
}

// Describe is prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	ch <- writtenDesc
	ch <- gapsDesc
	ch <- anewDesc
	ch <- sinksDesc
	ch <- lagDesc
}

// Collect is prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	for kind, counts := range s.counts {
		states, lag := s.fare(kind)
		for state, n := range states {
			ch <- prometheus.MustNewConstMetric(sinksDesc, prometheus.GaugeValue, float64(n), kind, string(state))
		}
		ch <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, lag.Seconds(), kind)
		ch <- prometheus.MustNewConstMetric(writtenDesc, prometheus.CounterValue, float64(counts.written.Load()), kind)
		ch <- prometheus.MustNewConstMetric(gapsDesc, prometheus.CounterValue, float64(counts.gaps.Load()), kind)
		ch <- prometheus.MustNewConstMetric(anewDesc, prometheus.CounterValue, float64(counts.reconciled.Load()), kind)
	}
}

// Lag returns the longest lag of the sinks that this server writes to. It may read the event log.
func (s *Service) Lag() (longest time.Duration) {
	for kind := range s.counts {
		_, lag := s.fare(kind)
		longest = max(longest, lag)
	}
	return longest
}

// fare counts the sinks of a kind by state. lag is the longest lag of the sinks that this server writes to.
func (s *Service) fare(kind string) (states map[State]int, lag time.Duration) {
	states = map[State]int{Writing: 0, Failing: 0, Stopped: 0, Waiting: 0}
	for _, w := range s.sinks.Runners() {
		if w.sink.Kind != kind {
			continue
		}
		if w.now.Load() == nil {
			states[Waiting]++
		} else if info, err := s.show(context.Background(), &w.sink); err == nil {
			states[info.State]++
			lag = max(lag, info.Lag(s.cfg.Now()))
		}
	}
	return states, lag
}
