package await_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"godwit.dev/godwit/internal/store/await"
)

type op struct{ await.Op }

// waiting starts a caller that waits for n ops, and returns the ops and a channel with the caller's result.
func waiting(ctx context.Context, n int) (ops []*op, answer <-chan error) {
	for range n {
		ops = append(ops, &op{})
	}
	answered := make(chan error, 1)
	go func() { answered <- await.All(ctx, ops, func(*op) {}) }()
	synctest.Wait()
	return ops, answered
}

func answered(answer <-chan error) bool {
	synctest.Wait()
	return len(answer) == 1
}

func TestACallerIsAnsweredOnceAllIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := errors.New("first"), errors.New("second")
		ops, answer := waiting(t.Context(), 3)
		ops[1].Finish(first)
		ops[0].Finish(nil)
		if answered(answer) {
			t.Fatal("answered although one op is not done")
		}
		ops[2].Finish(second)
		if err := <-answer; !errors.Is(err, first) {
			t.Errorf("answered %v, want the first error", err)
		}
	})
}

func TestACallerThatGoesAwayWithdrawsWhatIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		ctx, leave := context.WithCancelCause(t.Context())
		ops, answer := waiting(ctx, 2)
		if !ops[0].Take() {
			t.Fatal("an op that waits could not be taken")
		}
		leave(gone)
		if answered(answer) {
			t.Fatal("answered while the writer still has an op")
		}
		if ops[1].Take() {
			t.Error("an op was taken that was withdrawn")
		}
		ops[1].Finish(nil) // as the writer does with all that it had queued
		if answered(answer) {
			t.Fatal("an op that was withdrawn counted twice")
		}
		if !ops[0].Take() {
			t.Error("an op could not be tried again")
		}
		ops[0].Finish(nil)
		if err := <-answer; !errors.Is(err, gone) {
			t.Errorf("answered %v, want why the caller went", err)
		}
	})
}

func TestAnOpThatNobodyWaitsForIsDone(t *testing.T) {
	o := &op{}
	if o.Waited() || !o.Take() {
		t.Error("an op that nobody waits for must be taken")
	}
	o.Finish(nil)
	if err := await.All(t.Context(), []*op(nil), func(*op) {}); err != nil {
		t.Errorf("waiting for nothing: %v", err)
	}
}
