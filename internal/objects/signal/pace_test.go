package signal

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBatchingIntervalFollowsTheQueueing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paces{most: 100 * time.Millisecond}
		judge := func(queued time.Duration, times int) time.Duration {
			for range times {
				time.Sleep(batchJudgeEvery)
				p.judge("app", queued)
				p.judge("app", queued) // the interval is judged only once within batchJudgeEvery
			}
			return p.interval("app")
		}
		for _, step := range []struct {
			queued time.Duration
			times  int
			want   time.Duration
		}{
			{0, 5, 0},
			{batchQueueing + 1, 1, batchStep},
			{batchQueueing + 1, 4, 5 * batchStep},
			{batchQueueing / 2, 5, 5 * batchStep}, // neither too long nor short
			{time.Second, 100, 100 * time.Millisecond},
			{time.Millisecond, 1, 50 * time.Millisecond},
			{time.Millisecond, 10, 0},
		} {
			if got := judge(step.queued, step.times); got != step.want {
				t.Fatalf("after %d times %s of queueing the interval is %s, want %s", step.times, step.queued, got, step.want)
			}
		}
		if d := p.interval("another"); d != 0 {
			t.Errorf("another app waits %s", d)
		}
	})
}

func TestWorkerHoldsBackUntilReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		a, b := &watched{id: 1}, &watched{id: 2}
		ln := &fanoutWorker{queue: []waiting{{a, now.Add(30 * time.Millisecond)}, {b, now}}}
		due, _ := ln.take(now)
		if len(due) != 1 || due[0].w != b {
			t.Fatalf("due %+v, want the second alone", due)
		}
		due, wait := ln.take(now)
		if len(due) != 0 || wait != 30*time.Millisecond || !ln.until.Equal(now.Add(wait)) {
			t.Fatalf("due %+v, wait %s", due, wait)
		}
		if due, wait = ln.take(now.Add(wait)); len(due) != 1 || wait != idleWorker {
			t.Fatalf("due %+v, wait %s", due, wait)
		}
	})
}

func TestHeldObjectsAreReleasedByTheMonotonicClock(t *testing.T) {
	s := &Service{cfg: Config{Batch: func(string, string) time.Duration { return time.Minute }}}
	ready := time.Now()
	if !s.batch(&watched{}, &ready) {
		t.Fatal("the object is not held")
	}
	if text := ready.String(); !strings.Contains(text, " m=") { // a time without it follows the wall clock
		t.Errorf("%s has no reading of the monotonic clock", text)
	}
}

func TestHeldObjectsAreReleasedAtTheEndOfTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(7 * time.Second) // after the last full minute
		s := &Service{cfg: Config{Batch: func(string, string) time.Duration { return time.Minute }}}
		ready := time.Now()
		if !s.batch(&watched{}, &ready) {
			t.Fatal("the object is not held")
		}
		var ln fanoutWorker
		ln.hold(waiting{&watched{id: 1}, ready})
		ln.hold(waiting{&watched{id: 2}, ready.Add(time.Minute)})
		if due, wait := ln.take(time.Now()); len(due) != 0 || wait != 53*time.Second {
			t.Fatalf("due %+v, wait %s", due, wait)
		}
		time.Sleep(53 * time.Second)
		if due, wait := ln.take(time.Now()); len(due) != 1 || due[0].w.id != 1 || wait != time.Minute {
			t.Fatalf("due %+v, wait %s; want the first alone", due, wait)
		}
	})
}
