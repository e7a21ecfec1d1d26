package memory

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheHeapIsKeptSmallWhileConnectionsBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var percent atomic.Int64
		percent.Store(100)
		var sessions atomic.Int64
		sessions.Store(2 * burstOpens)
		var alive atomic.Uint64
		alive.Store(100 * burstRoom)
		read := func() heap { return heap{live: alive.Load()} }
		p := newPacer(func() int { return int(sessions.Load()) }, read, func(n int) int { return int(percent.Swap(int64(n))) })
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = p.Run(ctx) })
		expect := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := int(percent.Load()); got != want {
				t.Errorf("%s: %d percent, want %d", when, got, want)
			}
		}
		open := func(n int) {
			for range n {
				p.Opening()
			}
		}
		open(burstOpens - 1)
		expect("a few connections", 100)
		open(1)
		expect("a burst", burstPercent)
		for range 3 {
			time.Sleep(burstLook - time.Millisecond)
			open(burstOpens)
			time.Sleep(time.Millisecond)
			expect("it goes on", burstPercent)
		}
		alive.Store(4 * burstRoom)
		time.Sleep(burstTune)
		expect("the heap is small", 25)
		alive.Store(burstRoom / 4)
		time.Sleep(burstTune)
		expect("the heap is tiny", 100)
		time.Sleep(burstLinger + 2*burstLook)
		expect("it is over", 100)
		alive.Store(100 * burstRoom)
		time.Sleep(burstTune)
		expect("it stays over", 100)
		sessions.Add(-burstOpens)
		time.Sleep(burstLook)
		expect("many sessions end", burstPercent)
		time.Sleep(burstLinger + 2*burstLook)
		expect("nobody comes back", 100)
		open(burstOpens)
		expect("another", burstPercent)
		stop()
		running.Wait()
		expect("the server stops", 100)
	})
}

func TestAHeapThatIsCollectedTooOftenMayGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var percent atomic.Int64
		percent.Store(usualPercent)
		var alive, collections atomic.Uint64
		alive.Store(8 << 20)
		read := func() heap { return heap{live: alive.Load(), collections: collections.Load()} }
		p := newPacer(func() int { return 0 }, read, func(n int) int { return int(percent.Swap(int64(n))) })
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = p.Run(ctx) })
		synctest.Wait()
		second := func(collected uint64, want int) {
			t.Helper()
			collections.Add(collected)
			time.Sleep(burstLook)
			synctest.Wait()
			if got := int(percent.Load()); got != want {
				t.Errorf("after %d collections of %d MB: %d percent, want %d", collected, alive.Load()>>20, got, want)
			}
		}
		second(busyCollections-1, 100)
		second(28, 300)
		second(9, 300) // corresponds to 27 collections at 100 percent
		second(1, 300)
		second(0, 100)
		second(28, 300)
		alive.Store(4 << 20)
		second(9, 480)
		alive.Store(400 << 20)
		second(9, 100) // a heap of this size has enough room already
		second(9, 100)
		alive.Store(8 << 20)
		second(9, 300)
		for range burstOpens {
			p.Opening()
		}
		second(9, max(burstPercent, 62)) // a burst of connections has precedence
		stop()
		running.Wait()
		if got := percent.Load(); got != usualPercent {
			t.Errorf("the server stops: %d percent", got)
		}
	})
}
