package api

import (
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// TestEachNotificationIsInOneDigestThroughKills kills a server while notifications gather and digests leave.
func TestEachNotificationIsInOneDigestThroughKills(t *testing.T) {
	t.Parallel()
	k := inFiles(t)
	s := blackbox.Start(t, k.serve()...)
	g := &blackbox.Gathering{Keys: thorough.Rounds(300, 10_000), Items: 4, Nodes: []*blackbox.Server{s}}
	g.Prepare(t)
	var killing sync.WaitGroup
	killing.Go(func() {
		for range thorough.Rounds(4, 25) {
			<-time.After(1200 * time.Millisecond) // what gathers meanwhile is the load, and nothing waits for it
			s.Kill()
			if err := s.Launch(); err != nil {
				t.Error(err)
			}
		}
	})
	g.Run()
	killing.Wait()
	g.Check(s)
}
