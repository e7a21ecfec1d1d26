package nammayatri

import (
	"strings"
	"sync"
)

// categories are the categories that metrics count separately.
type categories struct {
	mu   sync.RWMutex
	seen map[string]bool
}

// of returns the label under which metrics count a category.
func (c *categories) of(category string) string {
	c.mu.RLock()
	known := c.seen[category]
	c.mu.RUnlock()
	if known {
		return category
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) >= maxCategories && !c.seen[category] {
		return otherCategory
	}
	if c.seen == nil {
		c.seen = make(map[string]bool)
	}
	category = strings.Clone(category)
	c.seen[category] = true
	return category
}
