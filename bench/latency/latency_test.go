package latency

import (
	"encoding/json"
	"testing"
	"time"
)

func TestMergedHistogramsKnowTheTailOfAll(t *testing.T) {
	fast, slow := New(), New()
	for range 990 {
		fast.Record(time.Millisecond)
	}
	for range 10 {
		slow.Record(time.Second)
	}
	b, err := json.Marshal(slow)
	if err != nil {
		t.Fatal(err)
	}
	sent := New()
	if err := json.Unmarshal(b, sent); err != nil {
		t.Fatal(err)
	}
	fast.Merge(sent)
	s := fast.Summary()
	if s.Count != 1000 || near(s.P50, 1) || near(s.P99, 1) || near(s.P999, 1000) || near(s.Max, 1000) {
		t.Errorf("the summary of both is %+v", s)
	}
}

// near reports whether got differs from want by more than the histogram's resolution.
func near(got, want float64) bool { return got < want*0.998 || got > want*1.002 }

func TestDeviationIsAroundTheMean(t *testing.T) {
	h := New()
	for _, ms := range []time.Duration{2, 4, 4, 4, 5, 5, 7, 9} { // mean 5, deviation 2
		h.Record(ms * time.Millisecond)
	}
	if s := h.Summary(); near(s.Mean, 5) || s.Sigma < 1.99 || s.Sigma > 2.01 {
		t.Errorf("the mean is %v with a deviation of %v, want 5 and 2", s.Mean, s.Sigma)
	}
}

func TestTakeLeavesNothing(t *testing.T) {
	h := New()
	h.Record(time.Millisecond)
	if taken := h.Take(); taken.Count() != 1 || h.Count() != 0 {
		t.Errorf("taken %d, left %d; want 1 and 0", taken.Count(), h.Count())
	}
}

func TestOutOfRangeLatencyCountsAsNearestBound(t *testing.T) {
	h := New()
	h.Record(-time.Second)
	h.Record(time.Hour)
	if h.Count() != 2 || h.At(0) > 2*time.Microsecond || h.At(100) < 4*time.Minute {
		t.Errorf("%d durations from %s to %s", h.Count(), h.At(0), h.At(100))
	}
}

func TestCurveEndsWhereThereIsNothingToShow(t *testing.T) {
	h := New()
	for i := range 100 {
		h.Record(time.Duration(i+1) * time.Millisecond)
	}
	c := h.Curve()
	last := c[len(c)-1]
	if last.Percentile > 99.01 || last.Percentile < 98 {
		t.Errorf("the curve of 100 durations ends at %v %%, want 99", last.Percentile)
	}
	for i := 1; i < len(c); i++ {
		if c[i].Millis < c[i-1].Millis {
			t.Errorf("the curve falls at %v %%", c[i].Percentile)
		}
	}
}
