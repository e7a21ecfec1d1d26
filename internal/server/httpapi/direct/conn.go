package direct

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/http1"
)

// Why a connection ends.
var (
	errIdle     = errors.New("no request came in time")
	errStopping = errors.New("the server stops")
	errUnread   = errors.New("the client does not read its answers")
	errAborted  = errors.New("the call was given up")
)

// conn is one connection. Fields that code outside its loop touches are atomic.
type conn struct {
	s         *Server
	rc        *reactor.Conn
	host      unique.Handle[string] // the host that net/http and the handlers before the API have accepted
	last      time.Time             // time of the last request, or of the first part of one
	begun     bool                  // a request has begun, for whose rest net/http would wait
	publishes bool                  // are answered on it
	state     atomic.Int32
	peer      *peer // nil: no calls are answered on it
}

// States of a connection. In the states answering and writing it is paused: clients that send requests ahead wait.
const (
	idle      int32 = iota
	partial         // a part of a request has arrived
	answering       // its request is being answered
	writing         // its answer waits until the client reads
	over            // it is closing, or was given back
)

var (
	_ reactor.Handler = (*conn)(nil)
	_ reactor.Ender   = (*conn)(nil)
)

// fewest is the number of bytes for which net/http waits between requests before it examines any. It skips line ends among them, which some
// clients send after a body (RFC 9112 section 2.2).
const fewest = 4

// Data implements reactor.Handler.
func (c *conn) Data(b []byte) (int, error) {
	if c.state.Load() == over {
		return len(b), nil
	}
	skipped := 0
	if !c.begun {
		if len(b) < fewest {
			return 0, nil
		}
		c.begun = true
		for skipped < fewest && (b[skipped] == '\r' || b[skipped] == '\n') {
			skipped++
		}
	}
	used := c.request(b[skipped:])
	return skipped + used, nil
}

// request handles input that begins with a request, and returns the number of bytes used.
func (c *conn) request(b []byte) int {
	h, call, kind := c.read(b)
	switch {
	case kind == http1.Other, kind == http1.Plain && string(h.Host) != c.host.Value():
		if c.rc.Unsent() {
			c.waitForReader()
			return 0
		}
		c.giveBack(b)
		return len(b)
	case kind == http1.Partial || len(b) < h.Size+h.Length:
		if c.state.CompareAndSwap(idle, partial) {
			c.last = time.Now()
			c.rc.SetTimer(wholeTime)
		}
		return 0
	case call != nil:
		c.call(call, b)
	default:
		c.submit(h, b)
	}
	return h.Size + h.Length
}

// read reads the head of a publish or a call; call is nil for a publish.
func (c *conn) read(b []byte) (h *http1.Head, call *http1.Call, kind http1.Kind) {
	if c.publishes {
		if h, kind := http1.Read(b, Line); kind != http1.Other {
			return &h, nil, kind
		}
	}
	if c.peer == nil {
		return nil, nil, http1.Other
	}
	of, kind := http1.ReadCall(b, CallPrefix)
	return &of.Head, &of, kind
}

// begin begins to answer a request, during which nothing is read. False: the connection is closing.
func (c *conn) begin() bool {
	now := time.Now()
	switch {
	case c.state.CompareAndSwap(idle, answering):
	case c.state.CompareAndSwap(partial, answering):
		c.rc.SetTimer(idleTime)
	default:
		return false
	}
	c.last, c.begun = now, false
	c.rc.Pause()
	return true
}

// submit queues a whole publish to be answered.
func (c *conn) submit(h *http1.Head, b []byte) {
	if !c.begin() {
		return
	}
	x, _ := c.s.free.Get().(*Exchange)
	x.c, x.Begun = c, c.last
	x.Body = append(x.Body[:0], b[h.Size:h.Size+h.Length]...)
	x.Authorization, x.IdempotencyKey = string(h.Authorization), string(h.IdempotencyKey)
	x.Trace.Parent, x.Trace.State = string(h.Traceparent), string(h.Tracestate)
	c.s.publishes.submit(x)
}

// The largest buffers that are used again, in bytes: of a request, and of an answer, which has the result for each recipient.
const (
	keepBuffer = 64 << 10
	keepAnswer = 512 << 10
)

var outs = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// Respond answers an exchange; fields holds the headers as they are sent. x must not be used afterwards.
func (x *Exchange) Respond(status int, fields, body []byte) {
	c := x.c
	last := c.s.stopping.Load()
	out, _ := outs.Get().(*[]byte)
	*out = http1.AppendAnswer((*out)[:0], status, fields, body, time.Now(), last)
	*x = Exchange{Body: x.Body[:0]}
	if cap(x.Body) > keepBuffer {
		x.Body = nil
	}
	c.s.free.Put(x)
	c.s.answered.Add(1)
	c.answer(*out, last)
	if cap(*out) <= keepAnswer {
		outs.Put(out)
	}
}

// waitForReader pauses until the client has read its answers; then the loop passes on the input that has arrived.
func (c *conn) waitForReader() {
	c.state.Store(writing)
	c.rc.Pause()
	c.rc.SetTimer(writeTime)
}

// answer sends an answer, and continues with the client's input once the client has read its answers.
func (c *conn) answer(out []byte, last bool) {
	c.rc.Write(out, nil) // fails only if the client is gone, since the queue was empty
	if last {
		c.state.Store(over)
		c.rc.CloseAfterFlush(errStopping)
		return
	}
	c.state.Store(writing)
	if c.rc.Unsent() {
		c.rc.SetTimer(writeTime)
		if c.rc.Unsent() {
			return // Drained follows
		}
	}
	c.goOn()
}

// goOn waits for the next request.
func (c *conn) goOn() {
	if !c.state.CompareAndSwap(writing, idle) {
		return
	}
	if c.s.stopping.Load() {
		c.stop()
		return
	}
	c.rc.Resume()
}

// stop ends an idle connection at once: a client that keeps it for later would not close its side, and the stop would wait for it. Its
// answers have been sent. Other connections end when their request is answered. stop may be called again.
func (c *conn) stop() {
	if c.state.CompareAndSwap(idle, over) {
		c.rc.Abort(errStopping)
	}
}

// giveBack gives the connection to net/http with its unused input: b, or outside Data the buffered bytes.
func (c *conn) giveBack(b []byte) {
	if c.state.Swap(over) == over {
		return
	}
	nc, err := c.rc.Release(b)
	if err != nil {
		c.rc.Abort(err)
		return
	}
	c.s.returned.Add(1)
	c.s.left(c)
	c.s.back.put(nc)
}

// Ended implements reactor.Ender. If a client ends its side after a part of a request, and the part is more than a few bytes, net/http gets
// the connection and answers with an error.
func (c *conn) Ended() {
	if c.begun {
		c.giveBack(nil)
	}
}

// Drained implements reactor.Handler.
func (c *conn) Drained() {
	if c.state.Load() == writing {
		c.rc.SetTimer(idleTime)
		c.goOn()
	}
}

// Tick implements reactor.Handler.
func (c *conn) Tick(now time.Time) {
	switch c.state.Load() {
	case partial:
		if c.rc.Unsent() {
			c.waitForReader()
			return
		}
		c.giveBack(nil)
	case writing:
		c.rc.Abort(errUnread)
	case answering:
		c.rc.SetTimer(idleTime)
	case idle:
		if left := idleTime - now.Sub(c.last); left > 0 {
			c.rc.SetTimer(left)
		} else if c.state.CompareAndSwap(idle, over) {
			c.rc.CloseAfterFlush(errIdle)
		}
	}
}

// Closed implements reactor.Handler.
func (c *conn) Closed(error) {
	c.s.left(c)
	if c.peer != nil {
		c.peer.left()
	}
}
