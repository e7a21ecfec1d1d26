package godwit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Request is a request to a worker or a client.
type Request struct {
	Subject             string
	Method, Path, Query string // set for calls through the gateway; else empty
	Header              http.Header
	Data                []byte // at most 1 MiB
	ContentType         string
	Deadline            time.Time // the sender waits for the answer until then

	id string
}

// Answer is the answer to a request or to a notification. A Status of 0 is 200.
type Answer struct {
	Status      int
	Header      http.Header
	Data        []byte // at most 1 MiB; for a notification, 64 KB
	ContentType string
}

// RequestHandler answers one request. An error becomes an answer with status 500 and the error's text. The context ends at the request's
// deadline, and when the request's connection is lost: an answer would not be delivered then.
type RequestHandler func(ctx context.Context, r *Request) (*Answer, error)

// The largest answers, to a request and to a notification.
const (
	maxAnswerData = 1 << 20
	maxReplyData  = 64 << 10
)

// check returns an error if the server would not accept the answer.
func (a *Answer) check(most int) error {
	switch {
	case len(a.Data) > most:
		return fmt.Errorf("the answer has %d bytes; at most %d are allowed", len(a.Data), most)
	case a.Status != 0 && (a.Status < 200 || a.Status > 599):
		return fmt.Errorf("the answer's status %d is not between 200 and 599", a.Status)
	}
	return nil
}

// Queue names the queue of workers that serve the same subjects: each request goes to one worker of the queue. Workers without this option
// share the default queue.
func Queue(name string) ListenOption { return func(o *listenOptions) { o.queue = name } }

// Answers sets the handler of requests to this recipient, or with Serve to its subjects, while Listen runs. Up to Window requests are
// handled at once.
func Answers(handle RequestHandler) ListenOption {
	return func(o *listenOptions) { o.answer = handle }
}

// Serve answers requests to subjects, of which each may be a pattern ("orders.>"), until ctx ends, and returns when the
// answers under way have left. It reconnects as Listen does, and the recipient's name identifies the worker as it identifies a
// listener. Up to Window handlers run at once. The credential is an API key with the roles worker and read, or a token with a
// claim serve; OnError receives the refusals.
func (c *Client) Serve(ctx context.Context, recipient string, subjects []string, handle RequestHandler, opts ...ListenOption) error {
	if len(subjects) == 0 {
		return errors.New("serve: no subject is named")
	}
	opts = append(opts, Answers(handle), func(o *listenOptions) { o.subjects = subjects })
	return c.Listen(ctx, recipient, nil, opts...)
}

// answering is a listener's state for requests.
type answering struct {
	mu       sync.Mutex
	stopping bool
	running  sync.WaitGroup
	took     atomic.Int64 // how long handlers take on average, in nanoseconds
}

// mostCounted is the longest time of a handler in the average, so that one that waits a minute does not count for hours.
const mostCounted = time.Millisecond

// note takes a handler's time into the average.
func (a *answering) note(d time.Duration) {
	was := a.took.Load()
	a.took.Store(was + (int64(min(d, mostCounted))-was)/8) // another handler's time may get lost
}

// serving is the frame with the subjects that the session serves; nil: none.
func (l *listener) serving() *clientFrame {
	if len(l.opts.subjects) == 0 {
		return nil
	}
	return &clientFrame{Serve: &serve{Subjects: l.opts.subjects, Queue: l.opts.queue}}
}

// admit reports whether a request may be answered. It is running then; otherwise the refusal has been queued.
func (l *listener) admit(r *Request) bool {
	a := &l.answering
	a.mu.Lock()
	defer a.mu.Unlock()
	var refused int
	var text string
	switch {
	case l.opts.answer == nil:
		refused, text = http.StatusNotImplemented, "this client answers no requests"
	case a.stopping:
		refused, text = http.StatusServiceUnavailable, "the worker is stopping"
	default:
		a.running.Add(1)
		return true
	}
	l.out.reply(&reply{RequestID: r.id, Status: refused, Answer: Answer{Data: []byte(text), ContentType: "text/plain"}})
	return false
}

// answer runs a request's handler and returns the frame with its answer; nil: nobody waits for it. ctx is the connection's.
func (l *listener) answer(ctx context.Context, r *Request) *clientFrame {
	begun := time.Now()
	own := &answerContext{Context: ctx, deadline: r.Deadline}
	defer own.end()
	got, err := l.opts.answer(own, r)
	l.answering.note(time.Since(begun))
	if own.Err() != nil {
		return nil
	}
	return &clientFrame{Reply: answerTo(r, got, err)}
}

// answerTo makes the frame that answers a request.
func answerTo(r *Request, got *Answer, err error) *reply {
	if err == nil && got != nil {
		err = got.check(maxAnswerData)
	}
	switch {
	case err != nil:
		got = &Answer{Status: http.StatusInternalServerError, Data: []byte(err.Error()), ContentType: "text/plain; charset=utf-8"}
	case got == nil:
		got = &Answer{}
	}
	return &reply{RequestID: r.id, Status: got.Status, Answer: *got}
}

// stopAnswering rejects new requests and waits for running handlers.
func (l *listener) stopAnswering() {
	a := &l.answering
	a.mu.Lock()
	a.stopping = true
	a.mu.Unlock()
	if s := l.serving(); s != nil {
		l.out.frame(&clientFrame{Unserve: s.Serve})
	}
	a.running.Wait()
}

// Reply returns an error for a Handler that answers a notification with ReplyBy, which settles it. An answer lost with its connection is
// sent again if it is one of the last 64; otherwise the handler is called again. An answer that the server would not accept counts as the
// handler's error, whose text is sent to the server.
func Reply(a Answer) error { return &replyError{a} }

type replyError struct{ answer Answer }

func (e *replyError) Error() string { return "answered" }

// headers separates the headers that occur once from those that repeat.
func headers(h http.Header) (once map[string]string, repeat map[string][]string) {
	for name, values := range maps.All(h) {
		if len(values) == 1 {
			if once == nil {
				once = make(map[string]string, len(h))
			}
			once[name] = values[0]
			continue
		}
		if repeat == nil {
			repeat = make(map[string][]string)
		}
		repeat[name] = values
	}
	return once, repeat
}
