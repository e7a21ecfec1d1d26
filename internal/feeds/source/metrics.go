package source

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	entriesDesc = prometheus.NewDesc("godwit_source_entries_total",
		"Entries that were read from sources, by what became of them. Those whose mailbox is full are counted each time they are tried.", []string{"source", "outcome"}, nil)
	sourcesDesc = prometheus.NewDesc("godwit_sources", "Sources that are switched on, by state.", []string{"source", "state"}, nil)

	lagBytesDesc   = prometheus.NewDesc("godwit_source_lag_bytes", "Bytes of its log that the furthest source of this server is behind; 0 where a source has no log.", []string{"source"}, nil)
	lagEntriesDesc = prometheus.NewDesc("godwit_source_lag_entries", "Entries that wait at the source of this server with the most; 0 where they are not counted.", []string{"source"}, nil)
	lagTimeDesc    = prometheus.NewDesc("godwit_source_lag_seconds", "Age of the oldest entry that waits at a source of this server; 0 if there is none.", []string{"source"}, nil)
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
	ch <- lagBytesDesc
	ch <- lagEntriesDesc
	ch <- lagTimeDesc
}

// Collect is prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	for kind, t := range s.totals {
		for fate, n := range map[Fate]uint64{
			Stored: t.stored.Load(), Duplicate: t.duplicate.Load(), Expired: t.expired.Load(), Quarantined: t.quarantined.Load(), Full: t.full.Load(),
		} {
			ch <- prometheus.MustNewConstMetric(entriesDesc, prometheus.CounterValue, float64(n), kind, string(fate))
		}
		states, lag := s.fare(kind)
		for state, n := range states {
			ch <- prometheus.MustNewConstMetric(sourcesDesc, prometheus.GaugeValue, float64(n), kind, string(state))
		}
		ch <- prometheus.MustNewConstMetric(lagBytesDesc, prometheus.GaugeValue, float64(lag.Bytes), kind)
		ch <- prometheus.MustNewConstMetric(lagEntriesDesc, prometheus.GaugeValue, float64(lag.Entries), kind)
		ch <- prometheus.MustNewConstMetric(lagTimeDesc, prometheus.GaugeValue, lag.Time.Seconds(), kind)
	}
}

// Lag returns the age of the oldest entry that waits at a source of this server; 0: there is none.
func (s *Service) Lag() (longest time.Duration) {
	for kind := range s.totals {
		_, lag := s.fare(kind)
		longest = max(longest, lag.Time)
	}
	return longest
}

// fare counts the sources of a kind by state. lag has the most of each that a source of this server is behind.
func (s *Service) fare(kind string) (states map[State]int, lag Lag) {
	states = map[State]int{Running: 0, Failing: 0, Waiting: 0}
	for _, r := range s.sources.Runners() {
		if r.source.Kind != kind {
			continue
		}
		info := Info{State: Waiting}
		r.show(&info)
		states[info.State]++
		if l := info.Lag; l != nil {
			lag.Bytes, lag.Entries, lag.Time = max(lag.Bytes, l.Bytes), max(lag.Entries, l.Entries), max(lag.Time, l.Time)
		}
	}
	return states, lag
}
