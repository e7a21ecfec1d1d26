package http2

import "time"

// Frames that cause work without data consume a budget, which is refilled by time and by data in either direction; a burst is allowed. This
// limits floods of SETTINGS, PING, PRIORITY, RST_STREAM (rapid reset, CVE-2023-44487), WINDOW_UPDATE and empty DATA alike. A connection
// that exceeds its budget ends with ENHANCE_YOUR_CALM.
const (
	floodBurst = 4000 // a proxy may reset a thousand streams at once
	floodRate  = 400  // a second
	perData    = 4    // added to the budget by each DATA frame that is not empty
)

// instant is a monotonic time in sixteenths of a second, so compact that a connection can hold several. It wraps around after eight years,
// so only differences are meaningful.
type instant uint32

const instantUnit = time.Second / 16

var epoch = time.Now()

func now() instant { return instant(time.Since(epoch) / instantUnit) }

func (t instant) add(d time.Duration) instant { return t + instant((d+instantUnit-1)/instantUnit) }

// until returns the time from now to t, which is not positive if t has passed.
func (t instant) until(now instant) time.Duration { return time.Duration(int32(t-now)) * instantUnit }

// spend takes n from the budget for a frame.
func (c *Conn) spend(n int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spendLocked(n)
}

func (c *Conn) spendLocked(n int32) error {
	left := int64(c.budget) - int64(n)
	if left < 0 {
		t := now()
		left = min(floodBurst, left+int64(-c.budgetAt.until(t)/(time.Second/floodRate)))
		c.budgetAt = t
	}
	c.budget = int16(max(left, -1))
	if left < 0 {
		return &ConnError{EnhanceYourCalm, "too many control frames"}
	}
	return nil
}

func (c *Conn) earn() { c.budget = min(c.budget+perData, floodBurst) }
