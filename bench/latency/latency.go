// Package latency records durations in histograms that can be merged across processes without losing the tail. A
// duration begins when its cause was due, not when a busy sender came round to it; otherwise a stalled server would hide
// its own stall (coordinated omission).
package latency

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a histogram: 1 µs to 5 minutes in three digits, in about 200 KB.
const (
	lowest  = int64(time.Microsecond)
	highest = int64(5 * time.Minute)
	digits  = 3
)

// Histogram holds durations. It is safe for concurrent use.
type Histogram struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
}

// New returns an empty Histogram.
func New() *Histogram { return &Histogram{h: hdrhistogram.New(lowest, highest, digits)} }

// Record adds one duration. A duration out of range counts as the nearest in range.
func (h *Histogram) Record(d time.Duration) {
	v := min(max(int64(d), lowest), highest)
	h.mu.Lock()
	_ = h.h.RecordValue(v) // it is in range
	h.mu.Unlock()
}

// Take returns the durations recorded since the last Take, and removes them.
func (h *Histogram) Take() *Histogram {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := &Histogram{h: h.h}
	h.h = hdrhistogram.New(lowest, highest, digits)
	return taken
}

// Merge adds what other holds.
func (h *Histogram) Merge(other *Histogram) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.h.Merge(other.h)
}

// Count returns the number of recorded durations.
func (h *Histogram) Count() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.h.TotalCount()
}

// At returns the duration at a percentile, 0 to 100.
func (h *Histogram) At(percentile float64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Duration(h.h.ValueAtPercentile(percentile))
}

// MarshalText encodes the whole histogram, compressed, so that another process can merge it.
func (h *Histogram) MarshalText() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, err := h.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode a histogram: %w", err)
	}
	return b, nil
}

// UnmarshalText decodes what MarshalText made.
func (h *Histogram) UnmarshalText(b []byte) error {
	decoded, err := hdrhistogram.Decode(b)
	if err != nil {
		return fmt.Errorf("decode a histogram: %w", err)
	}
	h.h = decoded
	return nil
}
