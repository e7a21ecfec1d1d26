package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// Limits of the frames that wait for a PostingClient.
const (
	// QueueBytes is the most bytes that wait for a client; an empty queue accepts one frame of any size.
	QueueBytes = 256 << 10
	// itemBytes is the cost of a waiting frame in addition to its bytes, so that small frames cannot grow the queue without limit.
	itemBytes = 96
)

// Item is one encoded frame.
type Item struct {
	Kind       frame.ServerKind // 0: a comment
	Head, Tail []byte
}

// Outlet receives all further frames of a PostingClient: it is a connection of the reactor.
type Outlet interface {
	Write(head, tail []byte) bool
	Queued() int
	Probe()
	CloseAfterFlush(err error)
}

// Pool limits the resources that posting clients share: their number, and the bytes that wait for all of them together. One app gets at
// most half of what the others leave of either.
type Pool struct{ places, bytes *fair.Shares }

// NewPool makes a pool.
func NewPool(clients, bytes int64) *Pool {
	return &Pool{places: fair.NewShares(clients), bytes: fair.NewShares(bytes)}
}

// Used is how many bytes wait for all clients of the pool.
func (p *Pool) Used() int64 { return p.bytes.Used() }

// Keep takes a place for a welcomed client. False: its app has as many as it may have. Leave returns the place.
func (p *Pool) Keep(c *PostingClient) bool { return p.places.Try(c.sess.App(), 1) }

// Leave returns the place that Keep took.
func (p *Pool) Leave(c *PostingClient) { p.places.Give(c.sess.App(), 1) }

// comment is one line that clients skip; it keeps an idle event stream alive.
var comment = []byte(":\n\n")

// errGoodbye is why a connection closes after its last frame.
var errGoodbye = errors.New("the session has ended")

// PostingClient is the transport of a client that posts its frames instead of sending them on its connection. Frames for the client wait in
// a bounded queue until the gateway takes them, or go directly to an Outlet.
type PostingClient struct {
	name    string
	format  frame.Format
	pool    *Pool
	sess    *session.Session
	posting sync.Mutex // one post at a time

	mu      sync.Mutex
	items   []Item
	size    int            // bytes of all items
	taken   int64          // of these, from the pool
	app     string         // the app that is charged for them; empty before the welcome: no bytes are charged
	refused bool           // a write was refused since the last Take
	bye     *frame.Goodbye // the session has ended
	gone    bool           // the client has left: no more frames are accepted
	answers *[]Item        // collects the direct answers to a post, as JSON
	resumed chan struct{}  // open while paused
	ready   chan struct{}  // has a token when there is something to take; nil with an outlet
	out     Outlet
}

var _ session.Transport = (*PostingClient)(nil)

// Open makes a PostingClient, accepts its session, and passes the hello to the session.
func Open(hub *session.Hub, peer session.Peer, hello *frame.Hello, name string, f frame.Format, p *Pool) *PostingClient {
	c := &PostingClient{name: name, format: f, pool: p, ready: make(chan struct{}, 1)}
	c.sess = hub.Accept(c, peer)
	c.sess.Frame(&frame.Client{Kind: frame.KindHello, Hello: hello})
	return c
}

// Session is the client's session.
func (c *PostingClient) Session() *session.Session { return c.sess }

// Ready has a token when frames may be waiting for Take.
func (c *PostingClient) Ready() <-chan struct{} { return c.ready }

// Await waits for the outcome of the hello: nil when the welcome is in the queue, else the goodbye. The error is the context's.
func (c *PostingClient) Await(ctx context.Context) (*frame.Goodbye, error) {
	for {
		c.mu.Lock()
		welcomed, bye := len(c.items) > 0 && c.items[0].Kind == frame.ServerWelcome, c.bye
		c.mu.Unlock()
		switch {
		case welcomed:
			c.signal() // the waiting frames must still be taken
			return nil, nil
		case bye != nil:
			return bye, nil
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Take removes and returns the waiting frames, and the goodbye if the session has ended.
func (c *PostingClient) Take() ([]Item, *frame.Goodbye) {
	c.mu.Lock()
	items, bye, refused := c.items, c.bye, c.refused
	c.clear()
	c.refused = false
	c.mu.Unlock()
	if refused {
		c.sess.Drained()
	}
	return items, bye
}

// TakeHeld does the same as Take for an answer that may have to be sent again: the frames stay in the count of waiting bytes until Release.
func (c *PostingClient) TakeHeld() (items []Item, bye *frame.Goodbye, held int64) {
	c.mu.Lock()
	held, c.taken = c.taken, 0
	c.mu.Unlock()
	items, bye = c.Take()
	return items, bye, held
}

// Release subtracts the bytes of TakeHeld from the count of waiting bytes.
func (c *PostingClient) Release(held int64) {
	if held > 0 {
		c.pool.bytes.Give(c.sess.App(), held)
	}
}

// Attach sends prefix and the waiting frames to out, and later frames directly. It must be called only once.
func (c *PostingClient) Attach(out Outlet, prefix []byte) {
	c.mu.Lock()
	for _, it := range c.items {
		prefix = append(append(prefix, it.Head...), it.Tail...)
	}
	out.Write(prefix, nil)
	c.clear()
	c.out = out
	bye, refused := c.bye, c.refused
	c.refused = false
	c.mu.Unlock()
	if bye != nil {
		out.CloseAfterFlush(errGoodbye)
	}
	if refused {
		c.sess.Drained()
	}
}

// Hangup ends the session because the client has left.
func (c *PostingClient) Hangup() {
	c.mu.Lock()
	c.gone = true
	c.clear()
	c.mu.Unlock()
	c.sess.Closed()
}

// clear empties the queue. c.mu is held.
func (c *PostingClient) clear() {
	if c.taken > 0 {
		c.pool.bytes.Give(c.app, c.taken)
	}
	c.items, c.size, c.taken = nil, 0, 0
}

// Ended reports whether the session has ended.
func (c *PostingClient) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bye != nil
}

// Format implements session.Transport.
func (c *PostingClient) Format() frame.Format { return c.format }

// Name implements session.Transport.
func (c *PostingClient) Name() string { return c.name }

// Queued is how many bytes wait until the client takes them.
func (c *PostingClient) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out != nil {
		return c.out.Queued()
	}
	return c.size
}

// Write implements session.Transport.
func (c *PostingClient) Write(k frame.ServerKind, head, tail []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.gone:
		return false
	case c.answers != nil && k.Answers():
		*c.answers = append(*c.answers, Item{k, frame.AppendAnswer(nil, c.format, k, head), nil})
		return true
	case c.out != nil:
		return c.out.Write(head, tail)
	}
	n := len(head) + len(tail) + itemBytes
	if k == frame.ServerWelcome {
		c.app = c.sess.App()
	}
	full := len(c.items) > 0 && c.size+n > QueueBytes
	switch {
	case !full && c.app != "" && c.pool.bytes.Try(c.app, int64(n)):
		c.taken += int64(n)
	case full || len(c.items) > 0 && c.app != "":
		c.refused = true
		return false
	}
	c.items = append(c.items, Item{k, bytes.Clone(head), tail})
	c.size += n
	c.signal()
	return true
}

// Probe implements session.Transport. On an event stream it writes a comment; a poll needs none, since it is itself a sign of life.
func (c *PostingClient) Probe() {
	c.mu.Lock()
	out := c.out
	c.mu.Unlock()
	switch {
	case out != nil:
		out.Probe()
	case c.format == frame.SSE:
		c.Write(0, comment, nil)
	}
}

// Close implements session.Transport.
func (c *PostingClient) Close(g frame.Goodbye) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bye = &g
	if c.out != nil {
		c.out.CloseAfterFlush(errGoodbye)
		return
	}
	c.signal()
}

func (c *PostingClient) signal() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// Pause implements session.Transport: the current post waits before its next frame.
func (c *PostingClient) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resumed == nil {
		c.resumed = make(chan struct{})
	}
}

// Resume implements session.Transport.
func (c *PostingClient) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resumed != nil {
		close(c.resumed)
		c.resumed = nil
	}
}

// Post passes posted frames to the session, in order, and returns the direct answers to them, as JSON. An invalid frame leads to an error
// frame among the answers; the error is the context's.
func (c *PostingClient) Post(ctx context.Context, frames []json.RawMessage) ([]Item, error) {
	c.posting.Lock()
	defer c.posting.Unlock()
	var answers []Item
	c.collect(&answers)
	defer c.collect(nil)
	var said frame.Client
	for _, raw := range frames {
		if err := c.running(ctx); err != nil {
			return nil, err
		}
		var e *frame.Error
		if err := c.format.Decode(raw, &said); errors.As(err, &e) {
			c.sess.Bad(e)
			continue
		}
		c.sess.Frame(&said)
	}
	err := c.running(ctx)
	c.collect(nil)
	return answers, err
}

func (c *PostingClient) collect(into *[]Item) {
	c.mu.Lock()
	c.answers = into
	c.mu.Unlock()
}

// running waits while the client is paused.
func (c *PostingClient) running(ctx context.Context) error {
	c.mu.Lock()
	resumed := c.resumed
	c.mu.Unlock()
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
