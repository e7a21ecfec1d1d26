package mailbox

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxCategories bounds how many categories are counted apart: publishers choose their names.
	maxCategories = 100
	// maxCategoryBytes is how much of a name is shown.
	maxCategoryBytes = 64
	// otherCategory stands for those beyond.
	otherCategory = "other"
)

// categories counts copies by the category that they name. Copies without one are not counted.
type categories struct {
	mu     sync.Mutex
	stored map[string]uint64
}

// count adds what one commit has stored.
func (c *categories) count(items []Item) {
	locked := false
	for i := range items {
		name := items[i].N.Content.Category
		if name == "" {
			continue
		}
		if !locked {
			c.mu.Lock()
			defer c.mu.Unlock()
			locked = true
		}
		c.stored[c.label(name)]++
	}
}

// label is under which name a category is counted. The lock is held.
func (c *categories) label(name string) string {
	if len(name) > maxCategoryBytes {
		name = name[:maxCategoryBytes]
	}
	if _, known := c.stored[name]; known {
		return name
	}
	if len(c.stored) >= maxCategories {
		return otherCategory
	}
	if c.stored == nil {
		c.stored = make(map[string]uint64)
	}
	return strings.Clone(name) // it may be a part of something large
}

var descCategories = prometheus.NewDesc("godwit_notifications_category_stored_total",
	"Notification copies stored since start, by category; beyond the first 100 categories: other.", []string{"category"}, nil)

func (c *categories) collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shown := make(map[string]uint64, len(c.stored)) // what was cut within a character looks as another one might
	for name, n := range c.stored {
		shown[strings.ToValidUTF8(name, "")] += n
	}
	for name, n := range shown {
		ch <- prometheus.MustNewConstMetric(descCategories, prometheus.CounterValue, float64(n), name)
	}
}
