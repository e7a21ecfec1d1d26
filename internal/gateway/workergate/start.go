package workergate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/httphead"
	"godwit.dev/godwit/internal/messaging/request"
)

// Together collects calls that are started one after the other, so that those to one worker share a write.
type Together = request.Together

// Starter is an Asker that can ask without waiting.
type Starter interface {
	Start(app string, r *request.Request, with *request.Together, then func(*request.Answer, error)) (p request.Pending, started bool)
}

// Waiting is a caller that waits for its answer.
type Waiting interface {
	http.ResponseWriter
	// OnGone has f called once if the caller goes before Done.
	OnGone(f func())
	// Done sends what was written. If nothing was, the caller gets no answer.
	Done()
	// Abort ends the connection instead, unless the answer was sent.
	Abort()
}

// Start does the same as ServeHTTP for a call whose body was read whole, without waiting: w is told when the answer is written. Calls that
// are started with the same with share their writes to workers. A caller without an API key must be looked up first; run starts the goroutine for that.
func (g *Gate) Start(w Waiting, r *http.Request, body []byte, with *Together, run func(func())) {
	defer g.survive(w)
	if !g.quick(w, r, body, with) {
		run(func() { g.slow(w, r, body) })
	}
}

// slow answers a call as if net/http had read it.
func (g *Gate) slow(w Waiting, r *http.Request, body []byte) {
	defer g.survive(w)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w.OnGone(cancel)
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.ServeHTTP(w, r)
	w.Done()
}

// survive has a panic end only the connection of its call, as in net/http.
func (g *Gate) survive(w Waiting) {
	if p := recover(); p != nil {
		g.cfg.Log.Error("gateway panicked", "panic", p, "stack", string(debug.Stack()))
		w.Abort()
	}
}

// quick answers a call of a caller with an API key by one of the workers of this node. False: nothing was done.
func (g *Gate) quick(w Waiting, r *http.Request, body []byte, with *Together) bool {
	asker, ok := g.cfg.Asker.(Starter)
	token := access.Bearer(r.Header)
	if !ok || g.cfg.Tracer != nil || token == "" {
		return false
	}
	service, path, err := g.called(r)
	if err != nil {
		return false
	}
	who := &caller{addr: remote(r)}
	if known, err := g.keyed(r, who, service, token); !known || err != nil {
		return false
	}
	taken, err := g.admit(r, who)
	if err != nil {
		return false
	}
	q := asked(r, who, Subject(side(who.service, service, r.Header.Get(splitKey)), r.Method, path), path, body)
	p, started := asker.Start(who.app, q, with, func(a *request.Answer, err error) {
		defer g.survive(w)
		g.shares.Give(who.app, taken)
		httphead.Protect(w.Header(), g.cfg.Place)
		if err == nil {
			err = g.pass(w, r, a)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			g.fail(w, r, err)
		}
		w.Done()
	})
	if !started {
		g.shares.Give(who.app, taken)
		return false
	}
	w.OnGone(func() { p.Cancel(context.Canceled) })
	return true
}
