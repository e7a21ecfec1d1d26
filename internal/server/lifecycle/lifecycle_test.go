package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStepsStopInReverseAndOneFailureStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped []string
		s := New(slog.New(slog.DiscardHandler), nil)
		s.AddClose("store", time.Second, func() error { stopped = append(stopped, "store"); return nil })
		s.AddClose("broken", time.Second, func() error { stopped = append(stopped, "broken"); return errors.New("no") })
		s.Add("stuck", time.Second, func(context.Context) error { time.Sleep(time.Hour); return nil })
		s.Add("slow", time.Minute, func(ctx context.Context) error {
			stopped = append(stopped, "slow")
			<-ctx.Done()
			return context.Cause(ctx)
		})
		s.AddPolite("deaf client", time.Second, func(context.Context) error { time.Sleep(time.Hour); return nil })
		start := time.Now()
		err := s.Stop(t.Context())
		if want := []string{"slow", "broken", "store"}; !slices.Equal(stopped, want) {
			t.Errorf("stopped %v, want %v", stopped, want)
		}
		if took := time.Since(start); took != time.Minute+2*(time.Second+stuckPatience) {
			t.Errorf("took %s", took)
		}
		for _, want := range []string{"slow did not stop in 1m0s", "stuck did not stop in 1s", "stop broken: no"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		if strings.Contains(err.Error(), "deaf client") {
			t.Errorf("a client that did not leave is a failure: %v", err)
		}
		time.Sleep(time.Hour) // lets the stuck one end
	})
}

func TestPartThatEndsByItselfIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 2)
		s := New(slog.New(slog.DiscardHandler), func(err error) { failed <- err })
		s.AddRun("watch", time.Second, func(context.Context) error { return errors.New("gone") })
		s.AddRun("loop", time.Second, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		synctest.Wait()
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		close(failed)
		var got []string
		for err := range failed {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, []string{"watch: gone"}) {
			t.Errorf("failures %v", got)
		}
	})
}
