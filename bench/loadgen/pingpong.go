package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"godwit.dev/godwit/bench/latency"
)

// PingPong publishes a number of notifications to each subscriber, the next as soon as the one before has arrived. The returned durations
// are from publishing to arrival. There must be a publisher for each subscriber.
func PingPong(ctx context.Context, subs *Subscribers, pubs *Publishers, messages int, patience time.Duration) (*latency.Histogram, error) {
	if pubs == nil {
		return nil, errors.New("there are no publishers")
	}
	subs.latency.Take()
	left := make([]int, len(subs.all)) // accessed only on the loop while it runs
	var wg sync.WaitGroup
	for i := range left {
		left[i] = messages
		wg.Add(1)
	}
	arrived := func(recipient int) {
		i := recipient - subs.cfg.First
		switch left[i]--; {
		case left[i] > 0:
			pubs.One(recipient)
		case left[i] == 0:
			wg.Done()
		}
	}
	subs.onArrival.Store(&arrived)
	defer subs.onArrival.Store(nil)
	for i := range left {
		pubs.One(subs.cfg.First + i)
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	look := time.NewTicker(lossLook)
	defer look.Stop()
	for {
		select {
		case <-done:
			return subs.latency.Take(), nil
		case <-timeout.C:
			return nil, fmt.Errorf("not all notifications came within %s; publishing: %s", patience, pubs.Progress().Why)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-look.C: // a request on a lost connection gets no answer
			if c := subs.Counts(); c.Lost > 0 {
				return nil, fmt.Errorf("%d subscribers lost their connections: %s", c.Lost, c.Why)
			}
			if p := pubs.Progress(); p.Failed > 0 {
				return nil, fmt.Errorf("%d publishers lost their connections: %s", p.Failed, p.Why)
			}
		}
	}
}

// lossLook is the interval of checks for lost connections.
const lossLook = 100 * time.Millisecond
