package pgdb

import (
	"math/rand/v2"
	"testing"
	"time"
)

// node is the clock of a process with a drifting quartz and delayed queries to the database.
type node struct {
	clock
	mono  time.Duration
	drift float64
}

func newNode(drift float64) *node {
	n := &node{drift: drift}
	n.tick = func() time.Time { return time.Unix(1000, 0).Add(n.mono) }
	return n
}

func (n *node) pass(d time.Duration) { n.mono += time.Duration(float64(d) * (1 + n.drift)) }

func TestNodesTellTheSameTimeThatNeverGoesBack(t *testing.T) {
	start := time.Unix(2_000_000_000, 0)
	truth := start
	nodes := []*node{newNode(50e-6), newNode(-50e-6), newNode(0)}
	var last [3]time.Time
	const step = 100 * time.Millisecond
	jumps := map[int]time.Duration{6_000: 4 * time.Millisecond, 12_000: -4 * time.Millisecond, 24_000: 10 * time.Minute, 30_000: -3 * time.Second}
	stepped := 0
	for i := range 60_000 {
		truth = truth.Add(step)
		if jump := jumps[i]; jump != 0 {
			truth = truth.Add(jump)
			if jump.Abs() > leap {
				stepped = i
			}
		}
		for k, n := range nodes {
			n.pass(step)
			if i%100 == k*33 { // each node queries every ten seconds, at a different time
				rtt := rand.N(time.Millisecond) + 1    // an answer takes some time
				asked, lie := rtt/2, rand.N(rtt)-rtt/2 // the request and the answer take different times
				n.set(n.tick().Add(-asked), truth.Add(-asked+lie), rtt/2)
			}
			now := n.now()
			if now.Before(last[k]) {
				t.Fatalf("node %d went back from %s to %s", k, last[k], now)
			}
			last[k] = now
		}
		if i < 100 || i-stepped < 500 {
			continue // not yet: nodes have not made their first query, or they are following the database's clock, which was set, one after the other
		}
		for k := range nodes {
			if apart := last[k].Sub(last[0]).Abs(); apart > 5*time.Millisecond {
				t.Fatalf("after %s two nodes are %s apart", time.Duration(i)*step, apart)
			}
		}
	}
	if off := truth.Sub(last[0]).Abs(); off > 2*time.Millisecond {
		t.Errorf("the clock is %s off in the end", off)
	}
}
