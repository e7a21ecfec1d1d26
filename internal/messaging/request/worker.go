package request

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// task is a request on its way to a worker.
type task struct {
	request  *frame.Request // its id is made for the worker that gets it; nil after it was sent
	deadline time.Time
	answer   func(*Answer, error)        // called at most once; does not block
	traced   func(status int, err error) // ends the worker's span; nil: it has none
}

// ended answers a task, and ends its span.
func (t *task) ended(a *Answer, err error) {
	switch {
	case t.traced == nil:
	case err != nil:
		t.traced(0, err)
	default:
		t.traced(a.Status, nil)
	}
	t.answer(a, err)
}

// worker holds the subjects that a session serves, and its open requests.
type worker struct {
	pool *pool
	to   session.Sender

	mu      sync.Mutex
	rights  *session.Rights
	window  int
	serves  []*serving
	asked   map[string]*task
	away    bool // the worker has left its queues, because it has no room
	blocked bool // the connection refused a request
	sharing bool // requests given to it now will soon be written together
	over    bool
	timer   *time.Timer // runs while away: drops overdue requests, and tries to join the queues again
}

// serving is one pattern that a session serves, as a member of one queue.
type serving struct {
	of    *group
	leave func() // nil: it is away
}

var _ session.Part = (*worker)(nil)

// Codes of errors.
const (
	codeForbidden   = "forbidden"
	codeTooMany     = "too_many_subjects"
	codeUnavailable = "unavailable"
)

// retryJoin is the wait before a worker tries again to join its queues after it failed because there was no bus.
const retryJoin = time.Second

// Join implements session.Part.
func (w *worker) Join() {}

// Start implements session.Part.
func (w *worker) Start() {}

// Frame implements session.Part.
func (w *worker) Frame(f *frame.Client) {
	if t, a, err := w.frame(f); t != nil {
		t.ended(a, err) // without the lock, since it may write to the asker's connection
	}
}

// frame handles a frame. A task is returned with its answer or error, which the caller must pass on.
func (w *worker) frame(f *frame.Client) (t *task, a *Answer, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil, nil, nil
	}
	switch f.Kind {
	case frame.KindServe:
		w.serve(f)
	case frame.KindUnserve:
		for _, p := range f.Patterns {
			if i := w.find(string(p), queue(f)); i >= 0 {
				w.drop(i)
			}
		}
	case frame.KindReply:
		return w.reply(f.Reply)
	}
	return nil, nil, nil
}

func queue(f *frame.Client) string {
	if len(f.Queue) == 0 {
		return DefaultQueue
	}
	return string(f.Queue)
}

// serve adds the allowed patterns of a frame, and names the refused ones in one error frame for each cause.
func (w *worker) serve(f *frame.Client) {
	var forbidden, tooMany, unavailable []string
	q := queue(f)
	for _, p := range f.Patterns {
		pattern := string(p)
		switch {
		case w.pool.svc.retired.Load():
			unavailable = append(unavailable, pattern)
		case w.find(pattern, q) >= 0:
		case !w.allowed(pattern):
			forbidden = append(forbidden, pattern)
		case len(w.serves) >= frame.MaxPatterns:
			tooMany = append(tooMany, pattern)
		default:
			s := &serving{of: w.pool.enter(groupKey{pattern, q}, w)}
			if err := w.join(s); err != nil {
				w.pool.svc.log.Debug("serving failed", "app", w.pool.app, "error", err)
				w.pool.quit(s.of, w)
				unavailable = append(unavailable, pattern)
				continue
			}
			w.serves = append(w.serves, s)
		}
	}
	w.refuse(codeForbidden, "your credential does not allow", forbidden)
	w.refuse(codeTooMany, fmt.Sprintf("a session may serve %d patterns, which leaves none for", frame.MaxPatterns), tooMany)
	w.refuse(codeUnavailable, "the message bus cannot be reached now; serve again later", unavailable)
}

func (w *worker) allowed(pattern string) bool {
	return w.rights.CanServe(pattern)
}

// refuse reports patterns that the worker may not serve, and the reason.
func (w *worker) refuse(code, why string, patterns []string) {
	if len(patterns) == 0 {
		return
	}
	w.to.Send(frame.ServerError, frame.AppendError(nil, w.to.Format(), frame.PatternsError(frame.KindServe, code, why, patterns)), nil)
}

func (w *worker) find(pattern, queue string) int {
	k := groupKey{pattern, queue}
	return slices.IndexFunc(w.serves, func(s *serving) bool { return s.of.key == k })
}

// drop ends one pattern. This worker still answers the requests that it has received for it.
func (w *worker) drop(i int) {
	s := w.serves[i]
	w.serves = slices.Delete(w.serves, i, i+1)
	if s.leave != nil {
		s.leave()
	}
	w.pool.quit(s.of, w)
}

// join makes the worker a member of a queue, unless it has no room now.
func (w *worker) join(s *serving) (err error) {
	if w.away || s.leave != nil {
		return nil
	}
	s.leave, err = w.pool.svc.bus.Subscribe(w.pool.app, topic.Request(s.of.key.pattern), s.of.key.queue,
		func(m topic.Message) { w.pool.got(s.of, w, m) }, w.pool.svc.metrics.lost)
	return err
}

// share does the same as give for simultaneous requests, and sends them in one write. The first caller lets the others run first, unless no
// other request is under way, and then writes. Requests of one goroutine are sent by with.
func (w *worker) share(t *task, with *Together) bool {
	w.mu.Lock()
	if with != nil {
		defer w.mu.Unlock()
		if !slices.Contains(with.held, w) {
			w.to.Cork()
			with.held = append(with.held, w)
		}
		return w.giveLocked(t)
	}
	if w.sharing || len(w.asked) == 0 {
		defer w.mu.Unlock()
		return w.giveLocked(t)
	}
	w.sharing = true
	w.to.Cork()
	taken := w.giveLocked(t)
	w.mu.Unlock()
	if taken {
		runtime.Gosched()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sharing = false
	w.to.Uncork()
	return taken
}

// uncork sends the requests that a Together has collected.
func (w *worker) uncork() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to.Uncork()
}

// give sends a task to the session. False: the session has no room or has ended.
func (w *worker) give(t *task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.giveLocked(t)
}

func (w *worker) giveLocked(t *task) bool {
	if w.over || w.blocked || w.full() {
		return false
	}
	svc := w.pool.svc
	if svc.open.Add(1); svc.retired.Load() || !w.sendTask(t) {
		svc.leftOpen(1)
		return false
	}
	return true
}

// sendTask sends a task and keeps it until it is answered. False: the connection has no room.
func (w *worker) sendTask(t *task) bool {
	id := newID()
	t.request.ID = id
	headers := t.request.Headers
	if tracer := w.pool.svc.tracer; tracer != nil {
		t.request.Headers, t.traced = tracer.Answering(w.pool.app, t.request.Subject, headers)
	}
	if !w.send(t.request) {
		t.request.Headers = headers
		w.blocked = true
		w.leave()
		return false
	}
	if w.asked == nil {
		w.asked = make(map[string]*task)
	}
	t.request = nil
	w.asked[id] = t
	if len(w.asked) >= w.window {
		w.leave()
	}
	return true
}

// encodings holds reused buffers for requests of at most keptBytes.
var encodings = sync.Pool{New: func() any { return new([]byte) }}

const keptBytes = 16 << 10

func (w *worker) send(r *frame.Request) bool {
	b, _ := encodings.Get().(*[]byte)
	defer encodings.Put(b)
	*b = frame.AppendRequest((*b)[:0], w.to.Format(), r)
	if len(*b) <= keptBytes {
		return w.to.Send(frame.ServerRequest, *b, nil)
	}
	long := *b
	*b = nil
	return w.to.Send(frame.ServerRequest, nil, long) // which nobody copies
}

// newID makes the random id of a request, 128 bits that only the request's worker learns.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// full drops overdue requests and then reports whether the window has no room.
func (w *worker) full() bool {
	if len(w.asked) >= w.window {
		w.expire(time.Now())
	}
	return len(w.asked) >= w.window
}

// expire drops requests whose sender no longer waits: their answers would have no receiver. It returns when the next request is due.
func (w *worker) expire(now time.Time) (next time.Time) {
	for id, t := range w.asked {
		switch {
		case !t.deadline.After(now):
			delete(w.asked, id)
			w.pool.svc.leftOpen(1)
			if t.traced != nil {
				t.traced(0, ErrNoAnswer)
			}
		case next.IsZero() || t.deadline.Before(next):
			next = t.deadline
		}
	}
	return next
}

// leave removes the worker from its queues until it has room.
func (w *worker) leave() {
	if w.away {
		return
	}
	w.away = true
	for _, s := range w.serves {
		if s.leave != nil {
			s.leave()
			s.leave = nil
		}
	}
	w.wakeAt(w.expire(time.Now()))
}

func (w *worker) wakeAt(at time.Time) {
	if at.IsZero() {
		return // the connection will report when it has room
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(time.Until(at), w.look)
	} else {
		w.timer.Reset(time.Until(at))
	}
}

// look is the timer's call.
func (w *worker) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if next := w.expire(time.Now()); !w.comeBack() {
		w.wakeAt(next)
	}
}

// comeBack joins the queues again if there is room. False: there is no room yet.
func (w *worker) comeBack() bool {
	if !w.away || w.over {
		return true
	}
	if w.blocked || len(w.asked) >= w.window || w.pool.svc.retired.Load() {
		return false
	}
	w.away = false
	for _, s := range w.serves {
		if err := w.join(s); err != nil {
			w.away = true
			w.wakeAt(time.Now().Add(retryJoin))
			return true
		}
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	return true
}

// reply finds the open request of this session that a reply answers in time; nil: there is none.
func (w *worker) reply(r *frame.Reply) (*task, *Answer, error) {
	t := w.asked[string(r.RequestID)]
	if t == nil {
		w.pool.svc.metrics.late()
		return nil, nil, nil
	}
	delete(w.asked, string(r.RequestID))
	defer w.pool.svc.leftOpen(1)
	w.comeBack() // before the answer is sent, since its receiver may send the next request at once
	if !t.deadline.After(time.Now()) {
		w.pool.svc.metrics.late()
		if t.traced != nil {
			t.traced(0, ErrNoAnswer)
		}
		return nil, nil, nil
	}
	if r.Broken {
		return t, nil, errBroken
	}
	return t, answerOf(r), nil
}

// Renew implements session.Part: it ends patterns that the new credential does not allow, and reports them to the client in a frame.
func (w *worker) Renew(who session.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rights = who.Rights
	var ended []string
	for i := len(w.serves) - 1; i >= 0; i-- {
		if p := w.serves[i].of.key.pattern; !w.allowed(p) {
			ended = append(ended, p)
			w.drop(i)
		}
	}
	slices.Reverse(ended)
	w.refuse(codeForbidden, "your new credential does not allow", ended)
}

// Drained implements session.Part.
func (w *worker) Drained() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocked = false
	w.comeBack()
}

// Closed implements session.Part: senders of unanswered requests get an error at once.
func (w *worker) Closed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for len(w.serves) > 0 {
		w.drop(len(w.serves) - 1)
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	for _, t := range w.asked {
		t.ended(nil, ErrWorkerGone)
	}
	w.pool.svc.leftOpen(len(w.asked))
	w.asked = nil
}

// retire has the worker leave its queues for good. It still answers the requests that it has.
func (w *worker) retire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.leave()
	for len(w.serves) > 0 {
		w.drop(len(w.serves) - 1)
	}
}
