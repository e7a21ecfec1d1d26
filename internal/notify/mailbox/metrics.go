package mailbox

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/notify/notification"
)

// counters are plain atomics, so that the hot path costs one addition; they are read when metrics are scraped.
type counters struct {
	stored  atomic.Uint64
	settled [16]atomic.Uint64
	refused atomic.Uint64 // publishes, for lack of space

	categories categories
}

func (c *counters) count(b *Batch) {
	c.stored.Add(uint64(len(b.Stored)))
	c.categories.commit(b)
	for i := range b.Settled {
		c.settled[b.Settled[i].As&15].Add(1)
	}
}

// Counts returns how many copies were stored since the start, and how many were settled, by final status.
func (m *Mailbox) Counts() (stored uint64, settled map[notification.Status]uint64) {
	settled = make(map[notification.Status]uint64)
	for s := range m.metrics.settled {
		if n := m.metrics.settled[s].Load(); n > 0 {
			settled[notification.Status(s)] = n
		}
	}
	return m.metrics.stored.Load(), settled
}

var (
	descStored  = prometheus.NewDesc("godwit_notifications_stored_total", "Notification copies stored since start.", nil, nil)
	descSettled = prometheus.NewDesc("godwit_notifications_settled_total", "Notification copies settled since start, by what ended them.", []string{"status"}, nil)
	descPending = prometheus.NewDesc("godwit_notifications_pending", "Notification copies that wait for their recipient.", nil, nil)
	descQueue   = prometheus.NewDesc("godwit_store_queue", "Operations waiting for the store's writer.", nil, nil)
	descCommits = prometheus.NewDesc("godwit_store_commits_total", "Transactions committed since start.", nil, nil)
	descRefused = prometheus.NewDesc("godwit_store_refused_total", "Publishes refused since start because the store's disk was short of space.", nil, nil)
	descFree    = prometheus.NewDesc("godwit_store_free_bytes", "Free bytes on the store's disk.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *Mailbox) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descStored, descSettled, descCategoryStored, descCategoryDelivered, descCategoryRetried, descCategoryExpired, descPending, descQueue, descCommits, descRefused, descFree} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Mailbox) Collect(ch chan<- prometheus.Metric) {
	stored, settled := m.Counts()
	ch <- prometheus.MustNewConstMetric(descStored, prometheus.CounterValue, float64(stored))
	for s, n := range settled {
		ch <- prometheus.MustNewConstMetric(descSettled, prometheus.CounterValue, float64(n), s.String())
	}
	m.metrics.categories.collect(ch)
	st := m.Stats()
	ch <- prometheus.MustNewConstMetric(descPending, prometheus.GaugeValue, float64(st.Pending))
	ch <- prometheus.MustNewConstMetric(descQueue, prometheus.GaugeValue, float64(st.Queued))
	ch <- prometheus.MustNewConstMetric(descCommits, prometheus.CounterValue, float64(st.Commits))
	ch <- prometheus.MustNewConstMetric(descRefused, prometheus.CounterValue, float64(m.metrics.refused.Load()))
	ch <- prometheus.MustNewConstMetric(descFree, prometheus.GaugeValue, float64(st.FreeBytes))
}
