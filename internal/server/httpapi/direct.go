package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/direct"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/problem"
)

// posts answers publishes that were read without net/http; handle and serve do that for all others.
type posts struct {
	a       *api
	b       *backend.API
	m       *metrics.Route
	pattern string
	role    access.Role
	fields  []byte // headers of an answer that is not a problem
}

// answerDirect sets the function that answers publishes on connections that were handed over, as a route's requests are answered.
func (a *api) answerDirect(rt call.Route, m *metrics.Route) {
	h := http.Header{}
	secure(h)
	h.Set("Content-Type", call.JSONType)
	p := &posts{a: a, b: a.posts, m: m, pattern: rt.Pattern, role: rt.Role, fields: lines(h)}
	a.direct.AnswerWith(p.serve)
}

// post is a publish that is being answered.
type post struct {
	*direct.Exchange
	backend.Post
}

// lines returns headers as they are sent.
func lines(h http.Header) []byte {
	var b bytes.Buffer
	_ = h.Write(&b) // a buffer takes all
	return b.Bytes()
}

// serve answers exchanges that arrived together: it stores those of one app together.
func (p *posts) serve(lot []*direct.Exchange) {
	left := make([]*post, 0, len(lot))
	for _, x := range lot {
		if one, err := p.read(x); err != nil {
			p.refuse(one, err)
		} else {
			left = append(left, one)
		}
	}
	for len(left) > 0 {
		together, others := split(left)
		if len(others) == 0 {
			p.store(together)
			return
		}
		p.a.direct.Go(func() { p.store(together) })
		left = others
	}
}

// split separates the publishes that can be stored together with the first one. If something must be looked up for the first, it is stored
// alone.
func split(xs []*post) (together, others []*post) {
	first := xs[0]
	for i, x := range xs {
		if i == 0 || x.Key.App == first.Key.App && !x.Asks() && !first.Asks() {
			together = append(together, x)
		} else {
			others = append(others, x)
		}
	}
	return together, others
}

// read authenticates the publisher and reads the publish.
func (p *posts) read(of *direct.Exchange) (x *post, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = p.panicked(r)
		}
	}()
	x = &post{Exchange: of, Post: backend.Post{Body: of.Body, Answer: of.Body[:0], Idempotency: of.IdempotencyKey, Trace: of.Trace}}
	if x.Key, err = p.a.key(context.Background(), access.BearerOf(x.Authorization), p.role); err != nil {
		return x, err
	}
	if err := call.CheckIdempotencyKey(of.IdempotencyKey); err != nil {
		return x, err
	}
	return x, p.b.Read(&x.Post)
}

// store stores publishes of one app and answers them.
func (p *posts) store(xs []*post) {
	err := p.stored(xs)
	for _, x := range xs {
		if err != nil {
			x.Err = err
		}
		if x.Err != nil {
			p.refuse(x, x.Err)
			continue
		}
		p.done(x, x.Status)
		x.Respond(x.Status, p.fields, x.Answer)
	}
}

func (p *posts) stored(xs []*post) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), call.Patience)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			err = p.panicked(r)
		}
	}()
	list := make([]*backend.Post, len(xs))
	for i, x := range xs {
		list[i] = &x.Post
	}
	p.b.Store(ctx, list)
	return nil
}

func (p *posts) panicked(r any) error {
	p.a.log.Error("handler panicked", "route", p.pattern, "panic", r, "stack", string(debug.Stack()))
	return errPanicked
}

// refuse answers with the problem of an error.
func (p *posts) refuse(x *post, err error) {
	is := problem.From(err)
	p.a.note(context.Background(), p.pattern, x.Key.App, is, err)
	p.done(x, is.Status)
	h := http.Header{}
	secure(h)
	body := refusal(h, is)
	x.Respond(is.Status, lines(h), body)
}

// done counts an exchange.
func (p *posts) done(x *post, status int) {
	_, path, _ := strings.Cut(p.pattern, " ")
	took := time.Since(x.Begun)
	p.m.Observe(status, took)
	p.a.noteRequest(context.Background(), http.MethodPost, path, "", status, took, x.Key.Key)
}
