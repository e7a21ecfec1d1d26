package signal

import (
	"testing"
	"testing/synctest"
)

func TestTasksOfTasksBeginUntilTheLastHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all tasks
		release := make(chan struct{})
		var second, waited bool
		if !all.Go(func() {
			<-release
			all.Go(func() { second = true })
		}) {
			t.Fatal("the first task does not begin")
		}
		go func() {
			all.wait()
			waited = true
		}()
		synctest.Wait()
		if waited {
			t.Fatal("nobody waited for the first task")
		}
		close(release)
		synctest.Wait()
		if !second || !waited {
			t.Fatalf("the task of the task ran: %t; all ended: %t", second, waited)
		}
		if all.begin() || all.Go(func() { t.Error("a task begins after the end") }) {
			t.Error("a task may begin after the end")
		}
	})
}

func TestQueueRunsNoMoreAtOnceThanItsLimitAndNothingAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all tasks
		var q queue[int]
		var done []int
		release := make(chan struct{})
		q.init(&all, 1, func(i int) {
			<-release
			done = append(done, i) // only one goroutine at a time, or the race detector reports it
		})
		for i := range 3 {
			q.add(i)
		}
		synctest.Wait()
		if all.n != 1 {
			t.Errorf("%d at once, want 1", all.n)
		}
		close(release)
		all.wait()
		q.add(3)
		synctest.Wait()
		if len(done) != 3 || len(q.items) != 0 {
			t.Errorf("did %v, keeps %v; want three done and nothing kept", done, q.items)
		}
	})
}
