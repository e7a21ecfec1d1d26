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
		var heap atomic.Uint64
		heap.Store(100 * burstRoom)
		p := newPacer(func() int { return int(sessions.Load()) }, heap.Load, func(n int) int { return int(percent.Swap(int64(n))) })
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
		heap.Store(4 * burstRoom)
		time.Sleep(burstTune)
		expect("the heap is small", 25)
		heap.Store(burstRoom / 4)
		time.Sleep(burstTune)
		expect("the heap is tiny", 100)
		time.Sleep(burstLinger + 2*burstLook)
		expect("it is over", 100)
		heap.Store(100 * burstRoom)
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
