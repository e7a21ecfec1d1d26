package http2

import "time"

// Frames that make work and bring nothing must be paid for: out of a burst, by time, or by data flowing either way.
// This bounds SETTINGS, PING, PRIORITY, RST_STREAM (rapid reset, CVE-2023-44487), WINDOW_UPDATE and empty DATA
// floods alike. A connection that overdraws ends with ENHANCE_YOUR_CALM.
const (
	floodBurst = 4000 // a proxy may drop a thousand streams at once
	floodRate  = 400  // a second
	perData    = 4    // earned by each DATA frame that carries something
)

var epoch = time.Now()

// now is the monotonic time since the process started, which fits a word.
func now() int64 { return int64(time.Since(epoch)) }

// spend pays n for a frame.
func (c *Conn) spend(n int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spendLocked(n)
}

func (c *Conn) spendLocked(n int32) error {
	c.budget -= n
	if c.budget >= 0 {
		return nil
	}
	t := now()
	c.budget = int32(min(floodBurst, int64(c.budget)+(t-c.budgetAt)/(int64(time.Second)/floodRate)))
	c.budgetAt = t
	if c.budget < 0 {
		return &ConnError{EnhanceYourCalm, "too many control frames"}
	}
	return nil
}

func (c *Conn) earn() { c.budget = min(c.budget+perData, floodBurst) }
