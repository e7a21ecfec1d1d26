package campaign

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the package's metrics. Labels have few values: the reactions.
type metrics struct {
	reactions *prometheus.CounterVec
	uncounted *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		reactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_push_reactions_total", Help: "Messages of campaigns first reported as shown, clicked or dismissed since start.",
		}, []string{"reaction"}),
		uncounted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_campaign_inbox_reactions_dropped_total", Help: "Reactions in inboxes that no campaign counted, since 4,096 others waited for the store or it failed.",
		}, []string{"reaction"}),
	}
}

func (m *metrics) react(r Reaction) { m.reactions.WithLabelValues(r.String()).Inc() }
func (m *metrics) miss(r Reaction)  { m.uncounted.WithLabelValues(r.String()).Inc() }

// progressPatience limits the store's time to report the campaigns' progress. Without an answer, the progress metrics are omitted.
const progressPatience = 2 * time.Second

var (
	descWorking  = prometheus.NewDesc("godwit_campaigns", "Campaigns that this node works on, by state.", []string{"state"}, nil)
	descProgress = prometheus.NewDesc("godwit_campaign_deliveries", "Deliveries of the campaigns that this node works on: open, or ended in whatever way.", []string{"state"}, nil)
)

// collectProgress collects the progress of the campaigns that this server works on. These are few: others wait in the store.
func (s *Service) collectProgress(ch chan<- prometheus.Metric) {
	working := map[State]int{Running: 0, Recalling: 0, Correcting: 0, Cancelled: 0}
	var nums []int64
	s.mu.Lock()
	for num, t := range s.tasks {
		working[t.state]++
		nums = append(nums, num)
	}
	s.mu.Unlock()
	for state, n := range working {
		ch <- prometheus.MustNewConstMetric(descWorking, prometheus.GaugeValue, float64(n), string(state))
	}
	ctx, cancel := context.WithTimeout(context.Background(), progressPatience)
	defer cancel()
	var open, all int64
	for _, num := range nums {
		f, err := s.store.Figures(ctx, num)
		if err != nil {
			return
		}
		open, all = open+f.Open(), all+f.Total()
	}
	ch <- prometheus.MustNewConstMetric(descProgress, prometheus.GaugeValue, float64(open), "open")
	ch <- prometheus.MustNewConstMetric(descProgress, prometheus.GaugeValue, float64(all-open), "ended")
}

var _ prometheus.Collector = (*Service)(nil)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	s.metrics.reactions.Describe(ch)
	s.metrics.uncounted.Describe(ch)
	ch <- descWorking
	ch <- descProgress
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	s.metrics.reactions.Collect(ch)
	s.metrics.uncounted.Collect(ch)
	s.collectProgress(ch)
}
