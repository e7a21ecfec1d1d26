package godwit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnAnswersContextEndsLikeOthers compares answerContext with context.WithDeadline, with and without a goroutine that waits for its end.
func TestAnAnswersContextEndsLikeOthers(t *testing.T) {
	lost := errors.New("the connection was lost")
	type key struct{}
	for name, do := range map[string]func(end func(), lose context.CancelCauseFunc){
		"it goes on":             func(func(), context.CancelCauseFunc) {},
		"its time is over":       func(func(), context.CancelCauseFunc) { time.Sleep(time.Minute) },
		"it was answered":        func(end func(), _ context.CancelCauseFunc) { end() },
		"its connection is lost": func(_ func(), lose context.CancelCauseFunc) { lose(lost) },
		"answered, then over":    func(end func(), _ context.CancelCauseFunc) { end(); time.Sleep(time.Hour) },
		"over, then lost":        func(_ func(), lose context.CancelCauseFunc) { time.Sleep(time.Hour); lose(lost) },
		"lost, then over":        func(_ func(), lose context.CancelCauseFunc) { lose(lost); time.Sleep(time.Hour) },
	} {
		for waits, watch := range map[string]bool{"nobody waits": false, "somebody waits": true} {
			t.Run(name+"/"+waits, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, lose := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
					defer lose(nil)
					at := time.Now().Add(time.Minute)
					want, cancel := context.WithDeadline(parent, at)
					defer cancel()
					got := &answerContext{Context: parent, deadline: at}
					defer got.end()
					if watch {
						select {
						case <-got.Done():
							t.Fatal("it has ended before it began")
						default:
						}
					}
					do(func() { cancel(); got.end() }, lose)
					synctest.Wait()
					// If a context ends twice, the first end counts; a context that nobody watched knows only the last. Both are valid.
					first := got.Err()
					if (first == nil) != (want.Err() == nil) {
						t.Errorf("its error is %v, want %v", first, want.Err())
					}
					if watch && (!errors.Is(got.Err(), want.Err()) || !errors.Is(context.Cause(got), context.Cause(want))) {
						t.Errorf("its error is %v because of %v, want %v because of %v", got.Err(), context.Cause(got), want.Err(), context.Cause(want))
					}
					child, stop := context.WithCancel(got)
					defer stop()
					if (child.Err() == nil) != (want.Err() == nil) {
						t.Errorf("what is derived from it says %v, want %v", child.Err(), want.Err())
					}
					select {
					case <-got.Done():
						if want.Err() == nil {
							t.Error("it has ended")
						}
					default:
						if want.Err() != nil {
							t.Error("it has not ended")
						}
					}
					time.Sleep(time.Hour)
					if first != nil && !errors.Is(got.Err(), first) {
						t.Errorf("its error was %v and is %v", first, got.Err())
					}
					if deadline, ok := got.Deadline(); !ok || !deadline.Equal(at) || got.Value(key{}) != "v" {
						t.Errorf("its deadline is %s, its value %v", deadline, got.Value(key{}))
					}
				})
			})
		}
	}
}

func TestContextsDerivedFromAnswerContextEndWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &answerContext{Context: t.Context(), deadline: time.Now().Add(time.Minute)}
		child, stop := context.WithCancel(c)
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("it says %v", child.Err())
		}
		c.end()
		if !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Errorf("its end has changed to %v", c.Err())
		}
	})
}
