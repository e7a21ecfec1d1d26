package source

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	entriesDesc = prometheus.NewDesc("godwit_source_entries_total",
		"Entries that were read from sources, by what became of them. Those whose mailbox is full are counted each time they are tried.", []string{"source", "outcome"}, nil)
	sourcesDesc = prometheus.NewDesc("godwit_sources", "Sources that are switched on, by state.", []string{"source", "state"}, nil)
)

func (c *Counts) add(o *Counts) {
	c.Stored += o.Stored
	c.Duplicate += o.Duplicate
	c.Expired += o.Expired
	c.Quarantined += o.Quarantined
	c.Full += o.Full
}

// count counts one entry.
func (c *Counts) count(f Fate) {
	switch f {
	case Stored:
		c.Stored++
	case Duplicate:
		c.Duplicate++
	case Expired:
		c.Expired++
	case Quarantined:
		c.Quarantined++
	case Full:
		c.Full++
	}
}

// totals are the Counts of all sources of a kind since the start.
type totals struct{ stored, duplicate, expired, quarantined, full atomic.Uint64 }

func (t *totals) add(c *Counts) {
	t.stored.Add(c.Stored)
	t.duplicate.Add(c.Duplicate)
	t.expired.Add(c.Expired)
	t.quarantined.Add(c.Quarantined)
	t.full.Add(c.Full)
}

// Describe is prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	ch <- entriesDesc
	ch <- sourcesDesc
}

// Collect is prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	for kind, t := range s.totals {
		for fate, n := range map[Fate]uint64{
			Stored: t.stored.Load(), Duplicate: t.duplicate.Load(), Expired: t.expired.Load(), Quarantined: t.quarantined.Load(), Full: t.full.Load(),
		} {
			ch <- prometheus.MustNewConstMetric(entriesDesc, prometheus.CounterValue, float64(n), kind, string(fate))
		}
		states := map[State]int{Running: 0, Failing: 0, Waiting: 0}
		for _, r := range s.sources.Runners() {
			if r.source.Kind == kind {
				states[r.state()]++
			}
		}
		for state, n := range states {
			ch <- prometheus.MustNewConstMetric(sourcesDesc, prometheus.GaugeValue, float64(n), kind, string(state))
		}
	}
}
