// Package lifecycle stops the parts of a server in the reverse order of their start.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// step is a started part with its stop function.
type step struct {
	name    string
	timeout time.Duration
	stop    func(context.Context) error
	polite  bool
}

// Steps holds the running parts, in the order of their start. Each part is registered where it starts, and all are stopped in reverse, so
// that a part stops before the parts that it depends on.
type Steps struct {
	log    *slog.Logger
	failed func(error)
	list   []step
}

// New makes an empty list. failed is called with the reason when a running part ends by itself.
func New(log *slog.Logger, failed func(error)) *Steps { return &Steps{log: log, failed: failed} }

// Add registers the stop function of a part that has just started. stop gets a context that ends after timeout, and must return then.
func (s *Steps) Add(name string, timeout time.Duration, stop func(context.Context) error) {
	s.list = append(s.list, step{name: name, timeout: timeout, stop: stop})
}

// AddPolite registers a stop that waits for other programs, which may not cooperate: a timeout is no failure.
func (s *Steps) AddPolite(name string, timeout time.Duration, stop func(context.Context) error) {
	s.list = append(s.list, step{name: name, timeout: timeout, stop: stop, polite: true})
}

// AddClose registers a stop that needs no context.
func (s *Steps) AddClose(name string, timeout time.Duration, stop func() error) {
	s.Add(name, timeout, func(context.Context) error { return stop() })
}

// AddRun starts run in a goroutine and stops it by ending its context. If run ends by itself, the function given to New is called with the
// reason.
func (s *Steps) AddRun(name string, timeout time.Duration, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); ctx.Err() == nil {
			if err == nil {
				err = errors.New("ended unexpectedly")
			}
			s.failed(fmt.Errorf("%s: %w", name, err))
		}
	}()
	s.Add(name, timeout, func(ctx context.Context) error {
		cancel()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// Stop stops everything, last started first, each part within its own timeout and all before ctx ends. It reports a step that fails or
// takes too long, and continues with the next ones.
func (s *Steps) Stop(ctx context.Context) error {
	var problems []error
	for len(s.list) > 0 {
		last := s.list[len(s.list)-1]
		s.list = s.list[:len(s.list)-1]
		switch err := runStep(ctx, last); {
		case err == nil:
		case last.polite:
			s.log.Info("cut off what had not ended in time", "step", last.name, "error", err)
		default:
			s.log.Error("stop step failed", "step", last.name, "error", err)
			problems = append(problems, fmt.Errorf("stop %s: %w", last.name, err))
		}
	}
	return errors.Join(problems...)
}

func runStep(ctx context.Context, st step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, st.timeout, fmt.Errorf("%s did not stop in %s", st.name, st.timeout))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- st.stop(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		// A step that obeys its context returns now; a stuck step is abandoned, since the process is about to end.
		select {
		case err := <-done:
			return err
		case <-time.After(stuckPatience):
			return context.Cause(ctx)
		}
	}
}

// stuckPatience is the time for a step to return after its timeout.
const stuckPatience = 100 * time.Millisecond
