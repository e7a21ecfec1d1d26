package cluster_test

import (
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestOnlyANodeThatReachesTheStoreNowCountsForOthers(t *testing.T) {
	w := newWorld(t, 0)
	var other atomic.Int64
	w.reach = func(name string) time.Duration {
		if name == "node-1" {
			return time.Duration(other.Load())
		}
		return 0
	}
	w.startAll(2)
	lost, well := w.nodes[0].cluster, w.nodes[1].cluster
	least := 2 * time.Second
	for _, reached := range []time.Duration{0, time.Second} { // lost, and just found again
		other.Store(int64(reached))
		if lost.OthersReachFor(t.Context(), least) {
			t.Errorf("a node that has reached the store for %s counts", reached)
		}
	}
	other.Store(int64(3 * time.Second))
	eventually.True(t, "the other node answers", func() bool { return lost.OthersReachFor(t.Context(), least) })
	if well.OthersReachFor(t.Context(), least) {
		t.Error("a node that lost the store counts")
	}
	well.Drain()
	if lost.OthersReachFor(t.Context(), least) {
		t.Error("a node that takes no sessions counts")
	}
}

// TestSessionsMoveToNoOtherNodeThanAcknowledgements: a node whose heartbeats report that it cannot reach the store gets neither sessions
// nor acknowledgements.
func TestSessionsMoveToNoOtherNodeThanAcknowledgements(t *testing.T) {
	w := newWorld(t, 0)
	w.reach = func(string) time.Duration { return time.Hour }
	w.heard = func(name string) time.Duration {
		if name == "node-1" {
			return time.Hour
		}
		return 0
	}
	w.startAll(3)
	asks := w.nodes[0].cluster
	eventually.True(t, "the node that has the store counts", func() bool {
		return asks.OthersReachFor(t.Context(), time.Second) && asks.OthersReachFor(t.Context(), 0)
	})
	w.nodes[2].cluster.Drain()
	for _, least := range []time.Duration{0, time.Second} {
		eventually.True(t, "the one without it does not", func() bool { return !asks.OthersReachFor(t.Context(), least) })
	}
}
