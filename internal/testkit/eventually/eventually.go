// Package eventually lets tests wait for a condition that another goroutine, another process or the kernel fulfils.
package eventually

import (
	"context"
	"testing"
	"time"
)

const (
	// Patience is far longer than any condition takes on a loaded machine.
	Patience = 2 * time.Minute
	// again is the pause between checks: a check may cost a query.
	again = 5 * time.Millisecond
)

// True checks repeatedly until the condition holds, and fails the test after Patience.
func True(t testing.TB, what string, so func() bool) {
	t.Helper()
	if !Holds(so) {
		t.Fatalf("%s: still not so after %s", what, Patience)
	}
}

// Holds checks repeatedly until the condition holds, for Patience at most, and returns whether it held.
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
