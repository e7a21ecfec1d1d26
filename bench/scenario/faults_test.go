package scenario

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
)

func TestARivalsFailureLeavesWhatWasMeasured(t *testing.T) {
	broke := errors.New("it broke")
	rival := contestant{name: "rival", rival: &testbed.Rival{}}
	ours := contestant{name: "ours"}
	r := &report.Result{}
	if err := rival.failed(t.Context(), r, "cell", broke); err != nil {
		t.Errorf("the run ends with %v", err)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "rival") || !strings.Contains(r.Notes[0], "it broke") || !strings.Contains(r.Notes[0], "cell") {
		t.Errorf("the notes are %q", r.Notes)
	}
	if err := ours.failed(t.Context(), r, "cell", broke); !errors.Is(err, broke) {
		t.Errorf("our own failure is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rival.failed(ended, r, "cell", broke); !errors.Is(err, broke) {
		t.Errorf("a run that was called off goes on: %v", err)
	}
	if err := ours.failed(t.Context(), r, "cell", nil); err != nil || len(r.Notes) != 1 {
		t.Errorf("what went well gives %v and notes %q", err, r.Notes)
	}
}

func TestDuplicatesAreNoNegativeLoss(t *testing.T) {
	for _, c := range []struct {
		received, missing, beyond, twice float64
	}{{1000, 0, -1, -1}, {990, 10, -1, -1}, {1283, 0, 283, -1}, {1000, 0, -1, 7}} {
		o := &Outcome{Expected: 1000, Counts: loadgen.Counts{Received: int64(c.received), Duplicates: int64(max(c.twice, 0))}}
		r := &report.Result{}
		o.tellFaults(r, "g")
		for name, want := range map[string]float64{"deliveries missing": c.missing, beyond: c.beyond, "deliveries twice": c.twice} {
			f := r.Figure("g", name)
			if want < 0 && f != nil || want >= 0 && (f == nil || f.Median != want) {
				t.Errorf("of 1,000 came %v, %v twice: %s is %+v, want %v", c.received, c.twice, name, f, want)
			}
		}
	}
}

// TestCellsShareTheTime: slow cells must not use up the time of later ones, and time that quick cells leave is available to the others.
func TestCellsShareTheTime(t *testing.T) {
	now := time.Now()
	m := Matrix{Counts: []int{1, 9}, Sizes: []int{1, 2}, Clients: []int{10}, until: now.Add(20 * time.Second)}
	if m.left = m.work(); m.left != 2*weight(10, 1)+2*weight(10, 9) {
		t.Errorf("all cells weigh %d", m.left)
	}
	m.left = 200
	for i, c := range []struct {
		weight   int
		at, want time.Duration
	}{{10, 0, time.Second}, {90, 0, 20 * time.Second * 90 / 190}, {10, 10 * time.Second, time.Second}, {90, 10 * time.Second, 10 * time.Second}} {
		if got := m.share(c.weight, now.Add(c.at)).Sub(now.Add(c.at)); got.Round(time.Millisecond) != c.want.Round(time.Millisecond) {
			t.Errorf("cell %d has %s, want %s", i+1, got, c.want)
		}
	}
}

func TestARunThatLosesAllPublishersFails(t *testing.T) {
	for failed, fails := range map[int64]bool{0: false, 3: false, 4: true} {
		o := &Outcome{Published: loadgen.Published{Failed: failed, Why: "EOF"}}
		if err := o.lost(4); (err != nil) != fails || fails && !strings.Contains(err.Error(), "EOF") {
			t.Errorf("of 4 publishers %d are lost: %v", failed, err)
		}
	}
}

func TestACallThatNeverBeganIsNoMeasurement(t *testing.T) {
	m := measured{caller: caller{load: &load{conns: 4}}}
	if err := m.add(t.Context(), nil, -time.Second); err == nil || !strings.Contains(err.Error(), "for longer") {
		t.Errorf("a measurement without a call gives %v", err)
	}
}
