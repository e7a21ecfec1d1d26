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

// instant is a monotonic time in sixteenths of a second, compact enough to keep several in a connection. It wraps
// after eight years, so only differences count.
type instant uint32

const instantUnit = time.Second / 16

var epoch = time.Now()

func now() instant { return instant(time.Since(epoch) / instantUnit) }

func (t instant) add(d time.Duration) instant { return t + instant((d+instantUnit-1)/instantUnit) }

// until is the time from now to t; if it is not positive, t has come.
func (t instant) until(now instant) time.Duration { return time.Duration(int32(t-now)) * instantUnit }

// spend pays n for a frame.
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
