package scenario

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestSlopeIsThatOfTheLine(t *testing.T) {
	slope, ok := slopeOf([][2]float64{{1000, 1.5}, {5000, 3.5}, {25000, 13.5}})
	if !ok || math.Abs(slope-0.0005) > 1e-9 {
		t.Errorf("slope %g, %t", slope, ok)
	}
	if _, ok := slopeOf([][2]float64{{1000, 1.5}}); ok {
		t.Error("one point has a slope")
	}
}

func TestForgettingLeavesEverythingButTheRegistrations(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"objects.db", "objects.db-wal", "mailbox.db"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := forgetRegistrations(dir); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "mailbox.db" {
		t.Errorf("left %v, %v", left, err)
	}
	if forgetRegistrations(dir) == nil {
		t.Error("forgetting nothing is no error: the measurement would be of something else")
	}
}
