// Package latency counts durations at the cost of one atomic addition each: in buckets so narrow (an eighth of a power of two) that the
// difference of two readings gives the percentiles of any interval.
package latency

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	fineBits = 3 // bits that select the bucket within a power of two: eight buckets each
	fine     = 1 << fineBits
	powers   = 33 // up to 2^35 µs, nine and a half hours; longer durations count as that
	buckets  = (powers + 1) * fine
)

// Histogram counts durations. The zero value is ready.
type Histogram struct {
	counts [buckets]atomic.Uint64
}

// Bucket is the number of durations that were longer than the previous bucket's Most and at most Most.
type Bucket struct {
	Most  time.Duration // whole microseconds
	Count uint64
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) { h.counts[index(d)].Add(1) }

// Buckets returns the buckets that are not empty, shortest first.
func (h *Histogram) Buckets() []Bucket {
	var out []Bucket
	for i := range h.counts {
		if n := h.counts[i].Load(); n > 0 {
			out = append(out, Bucket{most(i), n})
		}
	}
	return out
}

// index returns the bucket of a duration, which is rounded up to microseconds.
func index(d time.Duration) int {
	us := uint64(max(d+time.Microsecond-1, 0) / time.Microsecond)
	if us < fine {
		return int(us)
	}
	shift := bits.Len64(us) - 1 - fineBits
	return min(shift*fine+int(us>>shift), buckets-1)
}

// most returns the longest duration in a bucket.
func most(i int) time.Duration {
	if i < 2*fine {
		return time.Duration(i) * time.Microsecond
	}
	shift := i/fine - 1
	return time.Duration((uint64(i%fine+fine)+1)<<shift-1) * time.Microsecond
}

// Quantile returns the duration that a share q, 0 to 1, of all durations did not exceed; 0 if there were none.
func Quantile(bs []Bucket, q float64) time.Duration {
	var all uint64
	for _, b := range bs {
		all += b.Count
	}
	rank := uint64(math.Ceil(q * float64(all)))
	var seen uint64
	for _, b := range bs {
		if seen += b.Count; seen >= rank && seen > 0 {
			return b.Most
		}
	}
	return 0
}
