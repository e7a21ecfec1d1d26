package campaign

import (
	"sync"
	"time"
)

// meterSeconds is the period over which a rate is measured, in seconds.
const meterSeconds = 10

// meter measures the number of outcomes per second.
type meter struct {
	mu    sync.Mutex
	begun time.Time
	slots [meterSeconds]struct {
		second int64
		n      int
	}
}

func (m *meter) add(now time.Time, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun.IsZero() {
		m.begun = now
	}
	s := &m.slots[now.Unix()%meterSeconds]
	if s.second != now.Unix() {
		s.second, s.n = now.Unix(), 0
	}
	s.n += n
}

// rate returns the outcomes per second, over the last ten seconds or since the first outcome.
func (m *meter) rate(now time.Time) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun.IsZero() {
		return 0
	}
	n := 0
	for _, s := range m.slots {
		if now.Unix()-s.second < meterSeconds {
			n += s.n
		}
	}
	return float64(n) / min(max(now.Sub(m.begun).Seconds(), 1), meterSeconds)
}
