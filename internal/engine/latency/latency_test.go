package latency

import (
	"testing"
	"time"
)

func TestBucketsAreAtMostAnEighthWide(t *testing.T) {
	last := -time.Microsecond
	for i := range buckets {
		top := most(i)
		if top <= last {
			t.Fatalf("bucket %d ends at %s, the one before at %s", i, top, last)
		}
		if index(top) != i || index(last+time.Microsecond) != i {
			t.Fatalf("bucket %d is %s to %s; the ends fall into %d and %d", i, last+time.Microsecond, top, index(last+time.Microsecond), index(top))
		}
		if width := top - last; i > 0 && width > max(time.Microsecond, top/fine) {
			t.Fatalf("bucket %d, to %s, is %s wide", i, top, width)
		}
		last = top
	}
	if got := index(1 << 62); got != buckets-1 {
		t.Errorf("a century falls into bucket %d", got)
	}
	if got := index(-time.Second); got != 0 {
		t.Errorf("a negative duration falls into bucket %d", got)
	}
}

func TestQuantile(t *testing.T) {
	var h Histogram
	if q := Quantile(h.Buckets(), 0.5); q != 0 {
		t.Errorf("the median of nothing is %s", q)
	}
	for i := range 1000 {
		h.Observe(time.Duration(i+1) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0: time.Millisecond, 0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 1: time.Second} {
		if got := Quantile(h.Buckets(), q); got < want || got > want+want/fine {
			t.Errorf("quantile %v is %s, want %s and at most an eighth more", q, got, want)
		}
	}
}

func TestObservingAllocatesNothing(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
