package sink

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/event"
)

var (
	writtenDesc = prometheus.NewDesc("godwit_sink_events_total", "Events that sinks have taken from this server since its start.", []string{"sink"}, nil)
	sinksDesc   = prometheus.NewDesc("godwit_sinks", "Sinks that are switched on, by state.", []string{"sink", "state"}, nil)
	lagDesc     = prometheus.NewDesc("godwit_sink_lag_seconds", "How old the oldest event may be that a sink of this server has still to take; 0 if there is none.", []string{"sink"}, nil)
)

type counter struct{ n atomic.Uint64 }

func (c *counter) add(n int) { c.n.Add(uint64(n)) } //nolint:gosec // a count

// Lag is how old the oldest event may be that is not there yet; 0: all are.
func (i *Info) Lag(now time.Time) time.Duration {
	if i.Cursor >= i.Newest {
		return 0
	}
	return max(0, now.Sub(time.UnixMilli(int64(i.Cursor>>event.IDShift)))) //nolint:gosec // a time
}

// Describe is prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	ch <- writtenDesc
	ch <- sinksDesc
	ch <- lagDesc
}

// Collect is prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	states, lag := map[State]int{Writing: 0, Failing: 0, Stopped: 0, Waiting: 0}, 0.0
	s.mu.Lock()
	var mine []Sink
	for _, w := range s.writers {
		if w.now == nil {
			states[Waiting]++
		} else {
			mine = append(mine, w.sink)
		}
	}
	s.mu.Unlock()
	for i := range mine {
		if info, err := s.show(context.Background(), &mine[i]); err == nil {
			states[info.State]++
			lag = max(lag, info.Lag(s.cfg.Now()).Seconds())
		}
	}
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(sinksDesc, prometheus.GaugeValue, float64(n), ClickHouse, string(state))
	}
	ch <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, lag, ClickHouse)
	ch <- prometheus.MustNewConstMetric(writtenDesc, prometheus.CounterValue, float64(s.written.n.Load()), ClickHouse)
}
