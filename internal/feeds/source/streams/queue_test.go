package streams

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

func TestQueueHoldsEachStreamOnceAndSaysWhatItLeftOut(t *testing.T) {
	q := newQueue()
	q.add([]string{"a", "b", "a"})
	q.add([]string{"b", "c"})
	if keys, err := q.take(t.Context(), 2); err != nil || !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("took %v, %v", keys, err)
	}
	q.add([]string{"a"}) // a stream that was taken from the queue may have changed since
	if keys, err := q.take(t.Context(), 9); err != nil || !slices.Equal(keys, []string{"c", "a"}) {
		t.Errorf("took %v, %v", keys, err)
	}
	select {
	case <-q.missed:
		t.Error("says that something is left out")
	default:
	}
	for i := range mostQueued + 1 {
		q.add([]string{fmt.Sprint(i)})
	}
	select {
	case <-q.missed:
	default:
		t.Error("does not say that something is left out")
	}
}

func TestScanWaitsForRoomAndTakerForWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for i := range mostQueued {
			q.add([]string{fmt.Sprint(i)})
		}
		done := make(chan error, 1)
		go func() { done <- q.room(t.Context()) }()
		for range mostQueued/2 - 1 {
			_, _ = q.take(t.Context(), 1)
		}
		synctest.Wait()
		if len(done) != 0 {
			t.Error("a scan goes on while more than half is full")
		}
		_, _ = q.take(t.Context(), 1)
		synctest.Wait()
		if len(done) != 1 {
			t.Error("a scan waits although there is room")
		}
		_, _ = q.take(t.Context(), mostQueued)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := q.take(ctx, 1)
			done <- err
		}()
		<-done
		synctest.Wait()
		if len(done) != 0 {
			t.Error("took what is not there")
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("took something after the end")
		}
	})
}
