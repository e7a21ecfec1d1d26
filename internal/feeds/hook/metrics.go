package hook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	postsDesc = prometheus.NewDesc("godwit_hook_posts_total", "Attempts to post an event, by how they ended.", []string{"outcome"}, nil)
	hooksDesc = prometheus.NewDesc("godwit_hooks", "Hooks by state, of the apps whose events this server posts.", []string{"state"}, nil)
	lagDesc   = prometheus.NewDesc("godwit_hook_lag_seconds", "How long ago the oldest event happened that an active or failing hook has still to post; 0 if there is none.", nil, nil)
)

// Describe is prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	ch <- postsDesc
	ch <- hooksDesc
	ch <- lagDesc
}

// Collect is prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	for outcome, n := range map[string]uint64{"accepted": s.accepted.Load(), "failed": s.refused.Load()} {
		ch <- prometheus.MustNewConstMetric(postsDesc, prometheus.CounterValue, float64(n), outcome)
	}
	states, lag := s.fare()
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(hooksDesc, prometheus.GaugeValue, float64(n), string(state))
	}
	ch <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, lag.Seconds())
}

// Lag returns how long ago the oldest event happened that a hook of this server has still to post; 0: there is none.
func (s *Service) Lag() time.Duration {
	_, lag := s.fare()
	return lag
}

// fare counts the hooks by state, for the apps that this server owns. lag is the age of the oldest event that waits.
func (s *Service) fare() (states map[State]int, lag time.Duration) {
	states = map[State]int{Active: 0, Failing: 0, Paused: 0, Disabled: 0}
	now := s.now()
	for _, w := range s.owned() {
		s.mu.Lock()
		for _, r := range w.runners {
			p := r.progress(nil)
			st := state(&r.hook, &p)
			states[st]++
			if at := r.oldest(); !at.IsZero() && (st == Active || st == Failing) {
				lag = max(lag, now.Sub(at))
			}
		}
		s.mu.Unlock()
	}
	return states, lag
}
