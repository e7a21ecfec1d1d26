package cluster

import (
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// TestEachNotificationIsInOneDigestOnThreeNodes: notifications of one key are published to three nodes, which are killed one after the other, so
// that the sending of digests changes its owner.
func TestEachNotificationIsInOneDigestOnThreeNodes(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	c := Start(t, Options{})
	g := &blackbox.Gathering{Keys: thorough.Rounds(150, 10_000), Items: 4, Nodes: c.Nodes}
	g.Prepare(t)
	var killing sync.WaitGroup
	killing.Go(func() {
		for round := range thorough.Rounds(2, 24) {
			<-time.After(1500 * time.Millisecond) // what gathers meanwhile is the load, and nothing waits for it
			victim := c.Nodes[round%len(c.Nodes)]
			victim.Kill()
			if err := victim.Launch(); err != nil {
				t.Error(err)
			}
		}
	})
	g.Run()
	killing.Wait()
	g.Check(c.Nodes[0])
}
