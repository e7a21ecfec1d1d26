// Package testclock is a clock that a test sets by hand.
package testclock

import (
	"sync"
	"time"
)

// Clock is a clock that only moves when told. Several goroutines may use it.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// New returns a clock that shows a fixed time.
func New() *Clock { return At(time.Date(2031, 5, 4, 3, 2, 1, 0, time.UTC)) }

// At returns a clock that shows this time.
func At(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the time on and returns it.
func (c *Clock) Advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}
