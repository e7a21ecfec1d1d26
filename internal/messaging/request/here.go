package request

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
)

// askHere sends a request to the workers of this node without the bus, by the same rules: one worker of each queue gets it, and the first
// answer counts.
func (s *Service) askHere(ctx context.Context, app string, r *Request) (*Answer, error) {
	e := newExchange(r)
	if err := s.begin(app, e, nil); err != nil {
		return nil, err
	}
	return s.result(ctx, e, r.Subject)
}

// result waits for the first answer and counts it.
func (s *Service) result(ctx context.Context, e *exchange, to string) (*Answer, error) {
	got := e.wait(ctx)
	if err := s.settled(e, to, got.answer, got.err); err != nil {
		return nil, err
	}
	if got.last {
		e.free()
	}
	return got.answer, nil
}

// Together collects requests that one goroutine asks one after the other, so that those to one worker share a write. The zero value is
// ready for use; Send must follow soon.
type Together struct {
	held []*worker // their connections are corked
}

// Send sends the collected requests.
func (t *Together) Send() {
	for _, w := range t.held {
		w.uncork()
	}
	clear(t.held)
	t.held = t.held[:0]
}

// Pending is a request that Start has sent.
type Pending struct {
	e   *exchange
	gen uint32
}

// Cancel gives a request up: if it is not answered yet, then is called with the cause. It may be called at any time.
func (p Pending) Cancel(cause error) {
	if p.e != nil && p.e.state.CompareAndSwap(p.gen, p.gen|isSettled) {
		p.e.late.Stop()
		p.e.then(nil, cause)
	}
}

// Start does the same as Ask without waiting: then is called once with the result, perhaps before Start returns, and must not block. With
// false nothing was done, and the caller must use Ask, which may wait.
func (s *Service) Start(app string, r *Request, with *Together, then func(*Answer, error)) (p Pending, started bool) {
	if s.tracer != nil || !s.bus.Alone(app) {
		return p, false
	}
	err := topic.CheckName("subject", r.Subject)
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		then(nil, err)
		return p, true
	}
	e := newExchange(r)
	p = Pending{e, e.state.Load()}
	e.then = func(a *Answer, err error) { then(a, s.settled(e, r.Subject, a, err)) }
	if err := s.begin(app, e, with); err != nil {
		then(nil, err)
		return Pending{}, true
	}
	return p, true
}

// begin gives a request to workers. The error says that no worker got it.
func (s *Service) begin(app string, e *exchange, with *Together) error {
	queues := s.pool(app).serving(e.of.Subject)
	e.alone = len(queues) == 1
	given := 0
	e.late.Reset(e.of.Timeout)
	for i := range queues {
		if queues[i].give(e.task(), with) {
			given++
		}
	}
	if given == 0 && e.settle() { // workers without room have left their queues already
		e.late.Stop()
		return s.metrics.failed(fmt.Errorf("request %s: %w", e.of.Subject, topic.ErrNoResponders))
	}
	return nil
}

// settled counts the result of an exchange, and returns its error. to is the subject or the recipient.
func (s *Service) settled(e *exchange, to string, a *Answer, err error) error {
	if err != nil {
		return s.metrics.failed(fmt.Errorf("request %s: %w", to, err))
	}
	s.metrics.answered(e.begun, a.Status)
	return nil
}

// exchange is a request to workers of this node, and their answers.
type exchange struct {
	of      *Request
	begun   time.Time
	late    *time.Timer
	alone   bool                 // at most one worker has it
	then    func(*Answer, error) // gets the result; nil: it goes to answers
	answers chan result          // has room for one
	state   atomic.Uint32        // isSettled, and above it how often the exchange was used
	only    task                 // the task, if there is only one worker
	frame   frame.Request
}

const isSettled = 1

type result struct {
	answer *Answer
	err    error
	last   bool // nothing refers to the exchange any more
}

// exchanges holds exchanges with one worker that has answered: nothing refers to them any more.
var exchanges sync.Pool

// newExchange makes an exchange. Its timer does not run yet.
func newExchange(r *Request) *exchange {
	e, _ := exchanges.Get().(*exchange)
	if e == nil {
		e = &exchange{answers: make(chan result, 1)}
		e.late = time.AfterFunc(MaxTimeout, e.overdue)
		e.only.answer = e.answer
	}
	e.of, e.begun, e.alone = r, time.Now(), true
	return e
}

// free returns an answered exchange to the pool.
func (e *exchange) free() {
	e.of, e.then, e.frame, e.only.request, e.only.traced = nil, nil, frame.Request{}, nil, nil
	e.state.Add(1) // no longer settled, and used once more
	exchanges.Put(e)
}

// settle reports whether the exchange had no result yet. From now on it has one.
func (e *exchange) settle() bool {
	was := e.state.Load()
	return was&isSettled == 0 && e.state.CompareAndSwap(was, was|isSettled)
}

// answer takes a worker's answer.
func (e *exchange) answer(a *Answer, err error) {
	if !e.settle() {
		return
	}
	last := e.late.Stop() && e.alone
	if e.then == nil {
		e.answers <- result{a, err, last}
		return
	}
	e.then(a, err)
	if last {
		e.free()
	}
}

// overdue is the timer's call.
func (e *exchange) overdue() {
	if !e.settle() {
		return
	}
	err := fmt.Errorf("%w: waited %s", ErrNoAnswer, e.of.Timeout)
	if e.then == nil {
		e.answers <- result{err: err}
	} else {
		e.then(nil, err)
	}
}

// task makes the request for one worker.
func (e *exchange) task() *task {
	t, f := &e.only, &e.frame
	if !e.alone {
		t, f = &task{answer: e.answer}, new(frame.Request)
	}
	t.deadline = e.begun.Add(e.of.Timeout)
	*f = e.of.frame(t.deadline)
	t.request = f
	return t
}

// wait waits for the result of an exchange without then.
func (e *exchange) wait(ctx context.Context) result {
	select {
	case got := <-e.answers:
		return got
	case <-ctx.Done():
		if e.settle() {
			e.late.Stop()
			return result{err: context.Cause(ctx)}
		}
		return <-e.answers
	}
}
