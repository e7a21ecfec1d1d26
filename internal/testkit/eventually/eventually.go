// Package eventually waits in tests for what another goroutine, another process or the kernel brings about in its own time.
package eventually

import (
	"context"
	"testing"
	"time"
)

const (
	// Patience is far more than a loaded machine needs for what takes milliseconds.
	Patience = 2 * time.Minute
	// again is how long nothing is asked: an answer may cost a query.
	again = 5 * time.Millisecond
)

// True asks until it is so. It fails the test when that takes longer than Patience.
func True(t testing.TB, what string, so func() bool) {
	t.Helper()
	if !Holds(so) {
		t.Fatalf("%s: still not so after %s", what, Patience)
	}
}

// Holds asks until it is so, for Patience, and returns whether it became so.
func Holds(so func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	tick := time.NewTicker(again)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
