package mailbox

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/notify/notification"
)

const (
	// maxCategories is how many categories have counts of their own: publishers choose the names.
	maxCategories = 100
	// maxCategoryBytes is how many bytes of a name are shown.
	maxCategoryBytes = 64
	// otherCategory stands for those beyond.
	otherCategory = "other"
)

// categoryCounts are the counts of the copies of one category.
type categoryCounts struct{ stored, delivered, retried, expired atomic.Uint64 }

// categories counts copies by their category. Copies without a category are not counted.
type categories struct {
	mu    sync.Mutex                                 // of who adds one
	known atomic.Pointer[map[string]*categoryCounts] // the map is never changed: a new category makes a new map
}

// commit counts the copies that a commit has stored, and those that it has expired.
func (c *categories) commit(b *Batch) {
	for i := range b.Stored {
		if name := b.Stored[i].N.Content.Category; name != "" {
			c.of(name).stored.Add(1)
		}
	}
	for i := range b.Settled {
		if s := &b.Settled[i]; s.As == notification.Expired && s.Category != "" {
			c.of(s.Category).expired.Add(1)
		}
	}
}

// delivered counts writes to connections.
func (c *categories) delivered(marks []Mark) {
	for i := range marks {
		switch m := &marks[i]; {
		case m.Category == "":
		case m.Attempts == 1:
			c.of(m.Category).delivered.Add(1)
		case m.Attempts > 1:
			c.of(m.Category).retried.Add(1)
		}
	}
}

// of returns the counts for a category, and makes them if necessary.
func (c *categories) of(name string) *categoryCounts {
	if len(name) > maxCategoryBytes {
		name = name[:maxCategoryBytes]
	}
	if known := c.known.Load(); known != nil {
		if counts := (*known)[name]; counts != nil {
			return counts
		}
		if other := (*known)[otherCategory]; other != nil && len(*known) >= maxCategories {
			return other
		}
	}
	return c.add(name)
}

func (c *categories) add(name string) *categoryCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[string]*categoryCounts{}
	if known := c.known.Load(); known != nil {
		next = maps.Clone(*known)
	}
	if len(next) >= maxCategories {
		name = otherCategory
	}
	if next[name] == nil {
		next[strings.Clone(name)] = &categoryCounts{} // the string may be a part of a larger piece of memory
		c.known.Store(&next)
	}
	return next[name]
}

var (
	descCategoryStored = prometheus.NewDesc("godwit_notifications_category_stored_total",
		"Notification copies stored since start, by category; beyond the first 100 categories: other.", []string{"category"}, nil)
	descCategoryDelivered = prometheus.NewDesc("godwit_notifications_category_delivered_total",
		"Notification copies written to a connection for the first time since start, by category; beyond the first 100 categories: other.", []string{"category"}, nil)
	descCategoryRetried = prometheus.NewDesc("godwit_notifications_category_retried_total",
		"Times that notification copies were written to a connection again since start, by category; beyond the first 100 categories: other.", []string{"category"}, nil)
	descCategoryExpired = prometheus.NewDesc("godwit_notifications_category_expired_total",
		"Notification copies that expired since start, by category; beyond the first 100 categories: other.", []string{"category"}, nil)
)

func (c *categories) collect(ch chan<- prometheus.Metric) {
	known := c.known.Load()
	if known == nil {
		return
	}
	for desc, of := range map[*prometheus.Desc]func(*categoryCounts) *atomic.Uint64{
		descCategoryStored:    func(n *categoryCounts) *atomic.Uint64 { return &n.stored },
		descCategoryDelivered: func(n *categoryCounts) *atomic.Uint64 { return &n.delivered },
		descCategoryRetried:   func(n *categoryCounts) *atomic.Uint64 { return &n.retried },
		descCategoryExpired:   func(n *categoryCounts) *atomic.Uint64 { return &n.expired },
	} {
		shown := make(map[string]uint64, len(*known)) // names that were cut within a character may become equal
		for name, counts := range *known {
			shown[strings.ToValidUTF8(name, "")] += of(counts).Load()
		}
		for name, n := range shown {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), name)
		}
	}
}
