package direct

import (
	"net/http"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/reactor/http1"
)

// CallPrefix is the beginning of the paths of calls.
const CallPrefix = "/gw/"

// Call is one call of the gateway, and its answer.
type Call struct {
	R    *http.Request // without a body
	Body []byte

	c      *conn
	begun  time.Time
	header http.Header
	status int
	answer []byte
}

var _ http.ResponseWriter = (*Call)(nil)

func (x *Exchange) size() int { return len(x.Body) }

func (x *Call) size() int { return len(x.Body) }

// peer is what a connection with calls has beside: the client's address, and its call under way.
type peer struct {
	addr string

	mu     sync.Mutex
	call   *Call
	gone   func() // what call wants to be told when the client has gone; nil: nothing
	closed bool
}

// call queues a whole call to be answered.
func (c *conn) call(h *http1.Call, b []byte) {
	if !c.begin() {
		return
	}
	x := &Call{c: c, begun: c.last, header: make(http.Header)}
	if h.Length > 0 {
		x.Body = append(x.Body, b[h.Size:h.Size+h.Length]...)
	}
	x.R = &http.Request{
		Method: h.Method, URL: h.URL, RequestURI: h.Target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h.Header, Host: c.host.Value(), RemoteAddr: c.peer.addr, ContentLength: int64(h.Length), Body: http.NoBody,
	}
	c.peer.mu.Lock()
	c.peer.call = x
	c.peer.mu.Unlock()
	c.s.calls.submit(x)
}

// OnGone has f called once if the client goes before Done.
func (x *Call) OnGone(f func()) {
	p := x.c.peer
	p.mu.Lock()
	late := p.closed && p.call == x
	if p.call == x {
		p.gone = f
	}
	p.mu.Unlock()
	if late {
		p.left()
	}
}

// left tells a call under way that its client has gone.
func (p *peer) left() {
	p.mu.Lock()
	f := p.gone
	p.gone, p.closed = nil, true
	p.mu.Unlock()
	if f != nil {
		f()
	}
}

// Header implements http.ResponseWriter.
func (x *Call) Header() http.Header { return x.header }

// WriteHeader implements http.ResponseWriter.
func (x *Call) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
}

// Write implements http.ResponseWriter.
func (x *Call) Write(b []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	x.answer = append(x.answer, b...)
	return len(b), nil
}

// Done sends the answer. x must not be used afterwards.
func (x *Call) Done() {
	c := x.c
	c.peer.mu.Lock()
	c.peer.call, c.peer.gone = nil, nil
	c.peer.mu.Unlock()
	c.s.observe(x.status, time.Since(x.begun))
	if x.status == 0 { // nobody waits for it
		c.rc.Abort(errAborted)
		return
	}
	last := c.s.stopping.Load()
	out, _ := outs.Get().(*[]byte)
	*out = http1.AppendWritten((*out)[:0], x.status, x.header, x.answer, x.R.Method == http.MethodHead, time.Now(), last)
	c.s.answered.Add(1)
	c.answer(*out, last)
	if cap(*out) <= keepAnswer {
		outs.Put(out)
	}
}

// Abort ends the connection of a call that has not been answered.
func (x *Call) Abort() {
	p := x.c.peer
	p.mu.Lock()
	open := p.call == x
	p.mu.Unlock()
	if open {
		x.c.rc.Abort(errAborted)
	}
}
