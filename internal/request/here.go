package request

import (
	"context"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/topic"
)

// askHere asks the workers of this node without the bus, as it would: one of each queue, and the first answer counts.
func (s *Service) askHere(ctx context.Context, app string, r *Request) (*Answer, error) {
	queues := s.hall(app).serving(r.Subject)
	e := newExchange(r, len(queues))
	given := 0
	for i := range queues {
		if queues[i].give(e.task()) {
			given++
		}
	}
	if given == 0 { // workers without room have left their queues
		return nil, s.metrics.failed(fmt.Errorf("request %s: %w", r.Subject, topic.ErrNoResponders))
	}
	a, err := e.wait(ctx)
	if err != nil {
		return nil, s.metrics.failed(fmt.Errorf("request %s: %w", r.Subject, err))
	}
	s.metrics.answered(e.begun, a.Status)
	return a, nil
}

// exchange is a request that workers of this node are asked, and what they answer.
type exchange struct {
	of      *Request
	begun   time.Time
	answers chan result // has room for all
}

type result struct {
	answer *Answer
	err    error
}

func newExchange(r *Request, most int) *exchange {
	return &exchange{of: r, begun: time.Now(), answers: make(chan result, most)}
}

// task is the request for one worker.
func (e *exchange) task() *task {
	deadline := e.begun.Add(e.of.Timeout)
	return &task{request: e.of.frame(deadline), deadline: deadline, answer: func(a *Answer, err error) { e.answers <- result{a, err} }}
}

// wait waits for the first answer.
func (e *exchange) wait(ctx context.Context) (*Answer, error) {
	late := time.NewTimer(time.Until(e.begun.Add(e.of.Timeout)))
	defer late.Stop()
	select {
	case got := <-e.answers:
		return got.answer, got.err
	case <-late.C:
		return nil, fmt.Errorf("%w: waited %s", ErrNoAnswer, e.of.Timeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
