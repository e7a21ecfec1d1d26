package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/frame"
	"godwit.dev/godwit/internal/session"
)

// Limits of what waits on a Line.
const (
	// QueueBytes is the most that waits for a client; an empty queue takes one frame of any size.
	QueueBytes = 256 << 10
	// itemBytes is what a waiting frame costs beside its bytes, so that small frames cannot grow the queue without end.
	itemBytes = 96
)

// Item is one encoded frame.
type Item struct {
	Kind       frame.ServerKind // 0: a comment
	Head, Tail []byte
}

// Outlet takes over a Line's frames for good: a connection of the reactor.
type Outlet interface {
	Write(head, tail []byte) bool
	Queued() int
	Probe()
	CloseAfterFlush(err error)
}

// Budget bounds what waits on many lines together.
type Budget struct {
	Most int64 // bytes
	used atomic.Int64
}

// Used is how many bytes wait.
func (b *Budget) Used() int64 { return b.used.Load() }

// comment keeps an idle event stream alive: one line that clients skip.
var comment = []byte(":\n\n")

// errGoodbye is why a connection closes after its last frame.
var errGoodbye = errors.New("the session has ended")

// Line is the transport of a client that posts its frames instead of sending them on its connection. Frames to the
// client wait in a bounded queue until the gateway takes them, or go straight to an Outlet.
type Line struct {
	name   string
	format frame.Format
	budget *Budget
	sess   *session.Session
	turn   sync.Mutex // one post at a time

	mu      sync.Mutex
	items   []Item
	size    int
	refused bool           // a write was refused since the last Take
	bye     *frame.Goodbye // the session has ended
	gone    bool           // the client has: nothing is taken any more
	answers *[]Item        // collects the direct answers to a post, as JSON
	resumed chan struct{}  // open while paused
	ready   chan struct{}  // has a token when there is something to take; nil with an outlet
	out     Outlet
}

var _ session.Transport = (*Line)(nil)

// Open accepts a session on a new Line and hands over its hello.
func Open(hub *session.Hub, p session.Peer, hello *frame.Hello, name string, f frame.Format, b *Budget) *Line {
	l := &Line{name: name, format: f, budget: b, ready: make(chan struct{}, 1)}
	l.sess = hub.Accept(l, p)
	l.sess.Frame(&frame.Client{Kind: frame.KindHello, Hello: hello})
	return l
}

// Session is the session on this line.
func (l *Line) Session() *session.Session { return l.sess }

// Ready has a token when there may be something to Take.
func (l *Line) Ready() <-chan struct{} { return l.ready }

// Await waits for the outcome of the hello: nil once the welcome waits to be taken, else the goodbye. The error is the
// context's.
func (l *Line) Await(ctx context.Context) (*frame.Goodbye, error) {
	for {
		l.mu.Lock()
		welcomed, bye := len(l.items) > 0 && l.items[0].Kind == frame.ServerWelcome, l.bye
		l.mu.Unlock()
		switch {
		case welcomed:
			l.signal() // for what waits is still to be taken
			return nil, nil
		case bye != nil:
			return bye, nil
		}
		select {
		case <-l.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Take returns the frames that wait, and the goodbye if the session has ended.
func (l *Line) Take() ([]Item, *frame.Goodbye) {
	l.mu.Lock()
	items, bye, refused := l.items, l.bye, l.refused
	l.clear()
	l.refused = false
	l.mu.Unlock()
	if refused {
		l.sess.Drained()
	}
	return items, bye
}

// Attach sends what waits, after prefix, to out and whatever is written later directly. It must be called once.
func (l *Line) Attach(out Outlet, prefix []byte) {
	l.mu.Lock()
	for _, it := range l.items {
		prefix = append(append(prefix, it.Head...), it.Tail...)
	}
	out.Write(prefix, nil)
	l.clear()
	l.out = out
	bye, refused := l.bye, l.refused
	l.refused = false
	l.mu.Unlock()
	if bye != nil {
		out.CloseAfterFlush(errGoodbye)
	}
	if refused {
		l.sess.Drained()
	}
}

// Hangup ends the line from the client's side.
func (l *Line) Hangup() {
	l.mu.Lock()
	l.gone = true
	l.clear()
	l.mu.Unlock()
	l.sess.Closed()
}

// clear empties the queue. l.mu is held.
func (l *Line) clear() {
	l.budget.used.Add(-int64(l.size))
	l.items, l.size = nil, 0
}

// Ended reports whether the session has ended.
func (l *Line) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bye != nil
}

// Format implements session.Transport.
func (l *Line) Format() frame.Format { return l.format }

// Name implements session.Transport.
func (l *Line) Name() string { return l.name }

// Queued is how many bytes wait for the client to take them.
func (l *Line) Queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		return l.out.Queued()
	}
	return l.size
}

// Write implements session.Transport.
func (l *Line) Write(k frame.ServerKind, head, tail []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.gone:
		return false
	case l.answers != nil && k.Answers():
		*l.answers = append(*l.answers, Item{k, frame.AppendAnswer(nil, l.format, k, head), nil})
		return true
	case l.out != nil:
		return l.out.Write(head, tail)
	}
	n := len(head) + len(tail) + itemBytes
	if len(l.items) > 0 && (l.size+n > QueueBytes || l.budget.used.Load()+int64(n) > l.budget.Most) {
		l.refused = true
		return false
	}
	l.items = append(l.items, Item{k, bytes.Clone(head), tail})
	l.size += n
	l.budget.used.Add(int64(n))
	l.signal()
	return true
}

// Probe implements session.Transport. On an event stream it writes a comment; a poll is its own sign of life.
func (l *Line) Probe() {
	l.mu.Lock()
	out := l.out
	l.mu.Unlock()
	switch {
	case out != nil:
		out.Probe()
	case l.format == frame.SSE:
		l.Write(0, comment, nil)
	}
}

// Close implements session.Transport.
func (l *Line) Close(g frame.Goodbye) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bye = &g
	if l.out != nil {
		l.out.CloseAfterFlush(errGoodbye)
		return
	}
	l.signal()
}

func (l *Line) signal() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// Pause implements session.Transport: a post waits before its next frame.
func (l *Line) Pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resumed == nil {
		l.resumed = make(chan struct{})
	}
}

// Resume implements session.Transport.
func (l *Line) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resumed != nil {
		close(l.resumed)
		l.resumed = nil
	}
}

// Post hands over frames that the client posted, in order, and returns the direct answers to them, as JSON. What a frame has
// wrong is such an answer; the error is the context's.
func (l *Line) Post(ctx context.Context, frames []json.RawMessage) ([]Item, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	var answers []Item
	l.collect(&answers)
	defer l.collect(nil)
	var c frame.Client
	for _, raw := range frames {
		if err := l.running(ctx); err != nil {
			return nil, err
		}
		var e *frame.Error
		if err := l.format.Decode(raw, &c); errors.As(err, &e) {
			l.sess.Bad(e)
			continue
		}
		l.sess.Frame(&c)
	}
	err := l.running(ctx)
	l.collect(nil)
	return answers, err
}

func (l *Line) collect(into *[]Item) {
	l.mu.Lock()
	l.answers = into
	l.mu.Unlock()
}

// running waits until the line is not paused.
func (l *Line) running(ctx context.Context) error {
	l.mu.Lock()
	resumed := l.resumed
	l.mu.Unlock()
	if resumed == nil {
		return nil
	}
	select {
	case <-resumed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
