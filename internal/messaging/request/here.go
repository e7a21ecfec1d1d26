package request

import (
	"context"
	"fmt"
	"sync"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
)

// askHere sends a request to the workers of this node without the bus, by the same rules: one worker of each queue gets it, and the first
// answer counts.
func (s *Service) askHere(ctx context.Context, app string, r *Request) (*Answer, error) {
	queues := s.pool(app).serving(r.Subject)
	e := newExchange(r, len(queues))
	given := 0
	for i := range queues {
		if queues[i].give(e.task()) {
			given++
		}
	}
	if given == 0 { // workers without room have left their queues already
		return nil, s.metrics.failed(fmt.Errorf("request %s: %w", r.Subject, topic.ErrNoResponders))
	}
	a, err := e.wait(ctx)
	if err != nil {
		return nil, s.metrics.failed(fmt.Errorf("request %s: %w", r.Subject, err))
	}
	s.metrics.answered(e.begun, a.Status)
	e.free()
	return a, nil
}

// exchange is a request to workers of this node, and their answers.
type exchange struct {
	of      *Request
	begun   time.Time
	late    *time.Timer
	answers chan result // has room for all
	only    task        // the task, if there is only one worker
	frame   frame.Request
}

type result struct {
	answer *Answer
	err    error
}

// exchanges reuses the exchanges with one worker that has answered: nothing refers to them any more.
var exchanges = sync.Pool{New: func() any {
	e := &exchange{answers: make(chan result, 1), late: time.NewTimer(MaxTimeout)}
	e.only.answer = e.answer
	return e
}}

// newExchange begins an exchange with at most most workers.
func newExchange(r *Request, most int) *exchange {
	var e *exchange
	if most == 1 {
		e, _ = exchanges.Get().(*exchange)
		e.late.Reset(r.Timeout)
	} else {
		e = &exchange{answers: make(chan result, most), late: time.NewTimer(r.Timeout)}
	}
	e.of, e.begun = r, time.Now()
	return e
}

// free returns an answered exchange to the pool.
func (e *exchange) free() {
	if cap(e.answers) == 1 {
		e.of, e.frame, e.only.request, e.only.traced = nil, frame.Request{}, nil, nil
		exchanges.Put(e)
	}
}

func (e *exchange) answer(a *Answer, err error) { e.answers <- result{a, err} }

// task makes the request for one worker.
func (e *exchange) task() *task {
	t, f := &e.only, &e.frame
	if cap(e.answers) != 1 {
		t, f = &task{answer: e.answer}, new(frame.Request)
	}
	t.deadline = e.begun.Add(e.of.Timeout)
	*f = e.of.frame(t.deadline)
	t.request = f
	return t
}

// wait waits for the first answer.
func (e *exchange) wait(ctx context.Context) (*Answer, error) {
	defer e.late.Stop()
	select {
	case got := <-e.answers:
		return got.answer, got.err
	case <-e.late.C:
		return nil, fmt.Errorf("%w: waited %s", ErrNoAnswer, e.of.Timeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
