package godwit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// listener is one Listen call.
type listener struct {
	client    *Client
	dial      func(context.Context) (conn, error)
	recipient string
	handle    Handler
	opts      listenOptions

	jobs chan *job // waiting for a handler; capacity for all unacknowledged notifications of a server
	out  *outbox

	mu   sync.Mutex
	held map[string]*job // waiting or being handled, by id
	seen *idSet          // handled
	said replies         // answers to recent notifications

	answering answering

	refused string // the last refused token; only the connecting goroutine uses it
}

func newListener(c *Client, recipient string, handle Handler, o listenOptions) *listener {
	return &listener{
		client: c, dial: c.dial, recipient: recipient, handle: handle, opts: o,
		jobs: make(chan *job, maxWindow), held: make(map[string]*job), seen: newIDSet(rememberedIDs), out: newOutbox(o.ackDelay, o.window),
	}
}

// job is a notification that waits for its handler or is being handled.
type job struct {
	n      *Notification
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// flushPatience limits the time for sending the last handlers' acknowledgements.
const flushPatience = 2 * time.Second

// run implements Listen.
func (l *listener) run(ctx context.Context) error {
	if t := l.opts.topics; t != nil {
		if err := t.attach(l.out.signal); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		defer t.detach()
	}
	o := l.opts.objects
	if o == nil {
		return l.serve(ctx)
	}
	if l.opts.group != "" && l.opts.group != o.group {
		return fmt.Errorf("listen: the session's group is %s, its objects' is %s", l.opts.group, o.group)
	}
	l.opts.group = o.group
	if err := o.attach(owner{l.client.app, l.recipient, l.opts.device}, l.out.signal); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	err := l.serve(ctx)
	if lost := o.detach(); lost != nil {
		return errors.Join(err, lost)
	}
	return err
}

// serve starts handlers and connections and returns when all have ended. Connections end a little later than ctx, so that the
// acknowledgements of the last handlers can be sent.
func (l *listener) serve(ctx context.Context) (err error) {
	work, endWork := context.WithCancel(ctx)
	closing, beginClose := context.WithCancel(context.Background())
	conns, endConns := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	defer beginClose()
	defer endConns()

	var workers, connector sync.WaitGroup
	for range l.opts.concurrency {
		workers.Go(func() { l.work(work) })
	}
	gaveUp := make(chan error, 1)
	if o := l.opts.objects; o != nil {
		workers.Go(func() { o.run(work) })
	}
	if t := l.opts.topics; t != nil {
		workers.Go(func() { t.run(work, l.report) })
	}
	connector.Go(func() { gaveUp <- l.connect(work, conns, closing) })
	select {
	case err = <-gaveUp:
	case <-ctx.Done():
		err = ctx.Err()
	}
	endWork()
	l.stopAnswering()
	workers.Wait()
	beginClose()
	patience := time.AfterFunc(flushPatience, endConns)
	defer patience.Stop()
	connector.Wait()
	return err
}

// connect runs one session after the other. It returns nil when closing ends, or the refusal that ends Listen.
func (l *listener) connect(work, conns, closing context.Context) error {
	wait := backoff{base: connectBase, most: connectMost}
	failures := 0
	for {
		start := time.Now()
		welcomed, err := l.session(work, conns, closing)
		if closing.Err() != nil || conns.Err() != nil {
			return nil
		}
		if refusal := l.permanent(err); refusal != nil {
			return refusal
		}
		if welcomed && time.Since(start) >= stable {
			failures, wait.n = 0, 0
		}
		var delay time.Duration
		if failures > 0 { // the first retry follows without a wait
			delay = wait.next()
		}
		failures++
		delay = max(delay, askedToWait(err))
		if l.opts.disconnected != nil {
			l.opts.disconnected(err, delay)
		}
		if sleep(closing, delay) != nil {
			return nil
		}
	}
}

// goodbyeError ends a session because of the server's goodbye.
type goodbyeError struct{ goodbye }

func (e *goodbyeError) Error() string { return "server said goodbye: " + e.Reason }

func askedToWait(err error) time.Duration {
	var g *goodbyeError
	if errors.As(err, &g) {
		return g.RetryAfter
	}
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// permanent returns the error if connecting again would fail again; nil: it may succeed.
func (l *listener) permanent(err error) error {
	var reason string
	var refused *RefusedError
	var bye *goodbyeError
	var answer *Error
	switch {
	case errors.As(err, &bye):
		reason = bye.Reason
		err = nil
	case errors.As(err, &refused):
		reason, err = refused.Reason, refused.Err
	case errors.As(err, &answer):
		if answer.temporary() {
			return nil
		}
		reason = "answer"
		if answer.Status == 401 {
			reason = "unauthenticated"
		}
	}
	switch reason {
	case "unauthenticated", "token_expired":
		// The source may have another token by now. The same token would be refused again.
		if l.client.token != nil && !l.opts.peek && l.tokenIsNew() {
			return nil
		}
	case "forbidden", "unknown_app", "replaced", "erased", "answer", "permissiondenied", "unimplemented", "hello":
	default:
		return nil
	}
	return &RefusedError{Reason: reason, Err: err}
}

// tokenIsNew reports whether the source's token differs from the refused one.
func (l *listener) tokenIsNew() bool {
	ctx, cancel := context.WithTimeout(context.Background(), l.client.timeout)
	defer cancel()
	t, err := l.client.token(ctx)
	return err != nil || t.Value != l.refused // after a failure the source is called again at the next connect
}

// work handles notifications until ctx ends.
func (l *listener) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-l.jobs:
			l.handleOne(ctx, j)
		}
	}
}

func (l *listener) handleOne(ctx context.Context, j *job) {
	defer j.cancel(nil)
	if ctx.Err() != nil || j.ctx.Err() != nil { // the job ended or was recalled while it waited
		l.finish(j, nil, context.Canceled)
		return
	}
	err := l.handle(j.ctx, j.n)
	answer, err := answerOf(j.n, err)
	l.finish(j, answer, err)
	if l.opts.silent() {
		return
	}
	var after *nackError
	switch {
	case answer != nil:
		l.out.reply(answer)
	case err == nil:
		l.out.ack(j.n.ID)
	case j.ctx.Err() != nil: // settled already, or the next connection delivers it again
	case errors.As(err, &after):
		l.out.nack(nack{IDs: []string{j.n.ID}, After: wireTime(after.wait()), Reason: after.reason()})
	default:
		l.out.nack(nack{IDs: []string{j.n.ID}})
	}
}

// answerOf returns the answer that a handler returned as its error; err is not nil if the server would not accept the answer.
func answerOf(n *Notification, err error) (*reply, error) {
	var answered *replyError
	if !errors.As(err, &answered) {
		return nil, err
	}
	if err := answered.answer.check(maxReplyData); err != nil {
		return nil, NackAfter(unreadMost, fmt.Errorf("reply: %w", err))
	}
	return &reply{ID: n.ID, Status: answered.answer.Status, Answer: answered.answer}, nil
}

// finish ends a notification's handling with the answer or the error.
func (l *listener) finish(j *job, answer *reply, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, j.n.ID)
	switch {
	case answer != nil:
		l.said.add(answer)
	case err == nil:
		l.seen.add(j.n.ID)
	}
}

// take queues a notification for the handlers, unless it is queued or was handled. work is the handlers' context.
func (l *listener) take(work context.Context, n *Notification) {
	if l.handle == nil {
		return // the program uses only objects or topics
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[n.ID] != nil {
		return
	}
	if l.seen.contains(n.ID) {
		if !l.opts.silent() {
			l.out.ack(n.ID) // the first acknowledgement was lost with its connection
		}
		return
	}
	if r := l.said.find(n.ID); r != nil {
		if !l.opts.silent() {
			l.out.reply(r) // the first answer was lost with its connection
		}
		return
	}
	j := &job{n: n}
	j.ctx, j.cancel = context.WithCancelCause(work)
	select {
	case l.jobs <- j:
		l.held[n.ID] = j
	default: // more than any window allows: the server delivers it again later
		j.cancel(nil)
	}
}

func (l *listener) recall(list []string) {
	l.mu.Lock()
	for _, id := range list {
		if j := l.held[id]; j != nil {
			j.cancel(ErrRecalled)
		}
	}
	l.mu.Unlock()
	if l.opts.recalled != nil {
		l.opts.recalled(list)
	}
}

var errSilent = errors.New("server was silent for two heartbeats")

func helloError(e *frameError) error {
	return &RefusedError{Reason: "hello", Err: fmt.Errorf("%s (%s)", e.Message, e.Code)}
}
