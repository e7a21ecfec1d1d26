package app

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheHeapIsKeptSmallWhileConnectionsBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		percent := 100
		p := newPacer(func(n int) int {
			old := percent
			percent = n
			return old
		})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = p.run(ctx) })
		expect := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if percent != want {
				t.Errorf("%s: %d percent, want %d", when, percent, want)
			}
		}
		open := func(n int) {
			for range n {
				p.opening()
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
		time.Sleep(2 * burstLook)
		expect("it is over", 100)
		open(burstOpens)
		expect("another", burstPercent)
		stop()
		running.Wait()
		expect("the server stops", 100)
	})
}
