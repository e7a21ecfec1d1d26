// Package request implements request and reply: a request goes to one of the sessions that serve its subject, or to one recipient by name,
// and the answer goes back to the sender, at most once. It stores nothing. Requests travel over a bus, which NATS clients share. DESIGN.md
// gives the reasons.
package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
)

// Bus carries requests to workers, and answers back. A subscription made before a request over the same bus may receive that request.
type Bus interface {
	// Request sends a request to one worker of each queue that serves a subject and waits for the first answer until ctx ends. It sends the
	// request once. topic.ErrNoResponders: no worker serves the subject, which is known at once. topic.ErrUnavailable: the bus cannot be
	// reached.
	Request(ctx context.Context, app string, m topic.Message) (topic.Message, error)
	// Served reports whether a worker serves a subject now. It is true if the bus cannot know.
	Served(app, subject string) (bool, error)
	// Alone reports whether all subscriptions of an app were made with Subscribe.
	Alone(app string) bool
	// Reply answers a message; to is the Reply of that message.
	Reply(ctx context.Context, app, to string, m topic.Message) error
	// Subscribe makes a member of a queue; got may not block. Messages that reached the member before stop took effect are still delivered.
	Subscribe(app, pattern, queue string, got func(topic.Message), lost func(n int)) (stop func(), err error)
}

// Sessions finds the session that gets a request to a recipient.
type Sessions interface {
	// Newest returns the newest live session of a recipient that does not only observe; with a device, only that device's sessions count.
	// Nil: there is none.
	Newest(app, recipient, device string) *session.Session
}

// Limits. Those of frames are in package frame.
const (
	DefaultTimeout = 5 * time.Second  // time to wait for an answer, if the sender sets none
	MaxTimeout     = 60 * time.Second // longest time to wait: a request is not a job
	DefaultQueue   = "q"              // the queue of workers that name none; NATS services use the same name
)

// Errors that callers distinguish, besides topic.ErrNoResponders and topic.ErrUnavailable. Functions return them wrapped, never bare.
var (
	// ErrNoAnswer: the deadline passed. The worker may have carried out the request.
	ErrNoAnswer = errors.New("no answer came in time")
	// ErrWorkerGone: the worker's session ended without an answer. It may have carried out the request.
	ErrWorkerGone = errors.New("the worker that was asked has gone")
	// ErrBusy: all workers of the subject have as many requests as they accept. No worker received this one.
	ErrBusy = errors.New("all workers of this subject are busy")
	// ErrOffline: the recipient has no session that accepts requests.
	ErrOffline = errors.New("the recipient is not connected")
)

// BadAnswerError says that the reply is not a valid HTTP answer. The worker may have carried out the request.
type BadAnswerError struct {
	Why string // without the worker's text, which may be secret
}

func (e *BadAnswerError) Error() string { return "the worker's answer cannot be passed on: " + e.Why }

// errBroken is the error for replies of sessions that break the rules of their frame. The worker gets an error frame.
var errBroken = &BadAnswerError{Why: "its reply frame breaks a rule, which the error frame to the worker names"}

// Request is what is asked.
type Request struct {
	Subject             string // may be empty in a request to a recipient
	Method, Path, Query string // for HTTP requests; else empty
	Header              frame.Headers
	ContentType         string
	Data                []byte
	Timeout             time.Duration // 0: DefaultTimeout
}

// Check applies the rules of requests. A returned error is a *notification.FieldError.
func (r *Request) Check() error {
	if r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	switch {
	case r.Timeout < 0 || r.Timeout > MaxTimeout:
		return notification.BadField("timeout", "must be between 1ms and %s", MaxTimeout)
	case len(r.Data) > frame.MaxBody:
		return notification.BadField("body", "has %d bytes; at most %d are allowed", len(r.Data), frame.MaxBody)
	}
	if problem := r.Header.Check(); problem != "" {
		return notification.BadField("headers", "%s", problem)
	}
	return nil
}

// Answer is what came back.
type Answer struct {
	Status      int
	Header      frame.Headers
	ContentType string
	Data        []byte
}

// Config are the parts of a Service.
type Config struct {
	Bus    Bus
	Log    *slog.Logger
	Tracer Tracer // nil: nothing is traced
}

// Tracer follows requests by the trace context in their headers.
type Tracer interface {
	// Asking begins the span of a request. It returns the headers to send, and the function that ends the span.
	Asking(app, subject string, h map[string][]string) (sent map[string][]string, done func(status int, err error))
	// Answering begins the span of a request that a worker gets, as Asking does. done is nil if the asker's span is not sampled.
	Answering(app, subject string, h map[string][]string) (sent map[string][]string, done func(status int, err error))
}

// Service handles the requests of all apps on this node.
type Service struct {
	bus    Bus
	log    *slog.Logger
	tracer Tracer

	sessions  atomic.Pointer[Sessions]
	elsewhere Elsewhere // nil: there are no other nodes

	mu     sync.RWMutex
	pools  map[string]*pool // by app; only apps that ever had a worker on this node
	closed bool

	open    atomic.Int64  // requests that workers of this node have not answered
	retired atomic.Bool   // no worker gets another one
	idle    chan struct{} // closed when both are so: retired, and none open
	rested  sync.Once

	metrics *metrics
}

var _ session.Capability = (*Service)(nil)

// New makes a Service. Close must be called.
func New(cfg Config) *Service {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{bus: cfg.Bus, log: cfg.Log, tracer: cfg.Tracer, pools: make(map[string]*pool), idle: make(chan struct{}), metrics: newMetrics()}
}

// Close returns when the answers of ended sessions have been sent. All sessions must have ended before.
func (s *Service) Close() error {
	s.mu.Lock()
	halls := s.pools
	s.pools, s.closed = nil, true
	s.mu.Unlock()
	for _, h := range halls {
		h.out.close()
	}
	return nil
}

// Retire has the workers of this node get no more requests: they leave their queues, whose other members on other nodes get them. It returns
// when the requests that they have are answered, or overdue, or ctx ends.
func (s *Service) Retire(ctx context.Context) error {
	s.retired.Store(true)
	s.mu.RLock()
	all := slices.Collect(maps.Values(s.pools))
	s.mu.RUnlock()
	for _, h := range all {
		h.retire()
	}
	s.leftOpen(0)
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the answers of workers: %w", context.Cause(ctx))
	}
}

// leftOpen notes that fewer requests are open.
func (s *Service) leftOpen(fewer int) {
	if s.open.Add(-int64(fewer)) == 0 && s.retired.Load() {
		s.rested.Do(func() { close(s.idle) })
	}
}

// Ask sends a request to one of the workers of a subject and waits for the answer. It sends the request once: even if no answer comes, the
// worker may have carried it out.
func (s *Service) Ask(ctx context.Context, app string, r *Request) (*Answer, error) {
	if err := topic.CheckName("subject", r.Subject); err != nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	return s.traced(app, r, func(r *Request) (*Answer, error) { return s.ask(ctx, app, r) })
}

// Serves returns nil if a worker serves a subject now, and otherwise the error that Ask would return: before a long body is taken in, its
// caller learns that nobody would get it.
func (s *Service) Serves(app, subject string) error {
	if err := topic.CheckName("subject", subject); err != nil {
		return err
	}
	var served bool
	var err error
	if s.bus.Alone(app) {
		served = len(s.pool(app).serving(subject)) > 0
	} else {
		served, err = s.bus.Served(app, topic.Request(subject))
	}
	switch {
	case err == nil && !served:
		err = topic.ErrNoResponders
	case err == nil:
		return nil
	}
	return s.metrics.failed(fmt.Errorf("request %s: %w", subject, err))
}

// traced has a request sent within a span, if requests are traced.
func (s *Service) traced(app string, r *Request, ask func(*Request) (*Answer, error)) (*Answer, error) {
	if s.tracer == nil {
		return ask(r)
	}
	sent, done := s.tracer.Asking(app, r.Subject, r.Header)
	with := *r
	with.Header = sent
	a, err := ask(&with)
	if err != nil {
		done(0, err)
		return nil, err
	}
	done(a.Status, nil)
	return a, nil
}

// ask sends a request that was checked.
func (s *Service) ask(ctx context.Context, app string, r *Request) (*Answer, error) {
	if s.bus.Alone(app) {
		return s.askHere(ctx, app, r)
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("%w: waited %s", ErrNoAnswer, r.Timeout))
	defer cancel()
	m := r.message(begun.Add(r.Timeout))
	m.Subject = topic.Request(r.Subject)
	got, err := s.bus.Request(ctx, app, m)
	if err != nil {
		return nil, s.metrics.failed(fmt.Errorf("request %s: %w", r.Subject, cause(ctx, err)))
	}
	a, err := answer(got)
	if err != nil {
		return nil, s.metrics.failed(fmt.Errorf("request %s: %w", r.Subject, err))
	}
	s.metrics.answered(begun, a.Status)
	return a, nil
}

// Find sets the source of recipients' sessions. Until it is called, no session is found.
func (s *Service) Find(in Sessions) { s.sessions.Store(&in) }

// AskRecipient sends a request to the newest session of a recipient that does not only observe; with a device, to the newest session of
// that device.
func (s *Service) AskRecipient(ctx context.Context, app, recipient, device string, r *Request) (*Answer, error) {
	if r.Subject != "" {
		if err := topic.CheckName("subject", r.Subject); err != nil {
			return nil, err
		}
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	return s.traced(app, r, func(r *Request) (*Answer, error) { return s.askRecipient(ctx, app, recipient, device, r) })
}

// askRecipient sends a request that was checked to a session of this node or another.
func (s *Service) askRecipient(ctx context.Context, app, recipient, device string, r *Request) (*Answer, error) {
	if s.elsewhere != nil {
		if node := s.elsewhere.NewestNode(ctx, app, recipient, device, s.newestHere(app, recipient, device)); node != "" {
			return s.askNode(ctx, node, app, recipient, device, r)
		}
	}
	return s.askSession(ctx, app, recipient, device, r)
}

// newestHere returns when the session was connected that a request to the recipient would reach on this node; zero: there is none.
func (s *Service) newestHere(app, recipient, device string) time.Time {
	if in := s.sessions.Load(); in != nil {
		if to := (*in).Newest(app, recipient, device); to != nil {
			return to.Since()
		}
	}
	return time.Time{}
}

// askSession sends a request to a session of this node.
func (s *Service) askSession(ctx context.Context, app, recipient, device string, r *Request) (*Answer, error) {
	w := s.workerOf(app, recipient, device)
	if w == nil {
		return nil, s.metrics.failed(fmt.Errorf("request to %s: %w", recipient, ErrOffline))
	}
	e := newExchange(r)
	e.late.Reset(r.Timeout)
	if !w.share(e.task(), nil) && e.settle() {
		e.late.Stop()
		return nil, s.metrics.failed(fmt.Errorf("request to %s: %w", recipient, ErrBusy))
	}
	return s.result(ctx, e, recipient)
}

// cause returns why a request failed: if its time is over, that is the cause.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return context.Cause(ctx)
	}
	return err
}

// workerOf returns this capability's part of a recipient's session; nil: there is none.
func (s *Service) workerOf(app, recipient, device string) *worker {
	in := s.sessions.Load()
	if in == nil {
		return nil
	}
	to := (*in).Newest(app, recipient, device)
	if to == nil {
		return nil
	}
	w, _ := to.Part(s).(*worker)
	return w
}

// Frames implements session.Capability.
func (s *Service) Frames() (first, later []frame.Kind) {
	return []frame.Kind{frame.KindServe}, []frame.Kind{frame.KindUnserve, frame.KindReply}
}

// Open implements session.Capability. Nothing is stored: a worker that reconnects serves its subjects again.
func (s *Service) Open(_ context.Context, to session.Sender, who session.Client, load bool) session.Part {
	if load {
		return nil
	}
	return &worker{pool: s.pool(who.App), to: to, rights: who.Rights, window: max(int(who.Window), 1)}
}

// pool returns the pool of an app's workers, and makes it if necessary.
func (s *Service) pool(app string) *pool {
	s.mu.RLock()
	h := s.pools[app]
	s.mu.RUnlock()
	if h != nil {
		return h
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h = s.pools[app]; h == nil {
		h = &pool{svc: s, app: app, groups: make(map[groupKey]*group)}
		h.out.send = h.send
		if s.closed {
			h.out.close()
		} else {
			s.pools[app] = h
		}
	}
	return h
}
