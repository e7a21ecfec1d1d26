package backend

import (
	"context"
	"net/http"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Post is a POST /v1/notifications, read by net/http or by package direct. It is first parsed as a publish, then stored, alone or with
// others of its app.
type Post struct {
	Key         access.Principal
	Idempotency string // the Idempotency-Key; empty: none
	Trace       notification.Trace
	Body        []byte // borrowed until it was read
	Answer      []byte // buffer to which the answer is appended; it may be the body's memory

	Status int   // status of the answer, once the publish was stored
	Err    error // it was not stored

	draft *draft
}

// Read reads a publish and counts it against its key's budget.
func (a *API) Read(p *Post) (err error) {
	if p.draft, err = decodeDraft(p.Body); err != nil {
		return err
	}
	p.draft.Trace = p.Trace
	if p.Idempotency != "" && p.draft.ID == "" {
		p.draft.ID = call.DerivedID(p.Key.App, p.Idempotency, 0)
	}
	return a.allow(p.Key.Key, 1)
}

// traceOf returns a request's trace context.
func traceOf(h http.Header) notification.Trace {
	return notification.Trace{Parent: h.Get("Traceparent"), State: h.Get("Tracestate")}
}

// Asks reports whether something must be looked up before a parsed publish can be stored. Other publishes need not wait for that.
func (p *Post) Asks() bool { return p.draft.Template != "" || p.draft.Escalate != nil }

// Store stores parsed publishes of one app in their order, and sets each one's answer. It returns once they are on disk.
func (a *API) Store(ctx context.Context, posts []*Post) {
	drafts := make([]*notification.Draft, len(posts))
	for i, p := range posts {
		drafts[i] = &p.draft.Draft
	}
	results := a.Publisher.Publish(ctx, posts[0].Key.App, drafts)
	for i, p := range posts {
		p.Status, p.Answer, p.Err = p.draft.answer(&results[i], p.Answer)
	}
}

// answer appends the answer to a publish: 201 for a new notification to one recipient, 200 for a duplicate, or a list of results.
func (d *draft) answer(r *delivery.Result, b []byte) (status int, _ []byte, err error) {
	if r.Err != nil {
		return 0, b, call.NotStored(r.Err)
	}
	if d.list {
		return http.StatusOK, append(appendResults(b, r), '\n'), nil
	}
	one := &r.Copies[0]
	if one.Err != nil {
		return 0, b, call.NotStored(one.Err)
	}
	status = http.StatusCreated
	if one.Duplicate {
		status = http.StatusOK
	}
	return status, append(appendCopy(b, r.ID, one), '\n'), nil
}

// allow takes n publishes from a key's budget, or refuses them.
func (a *API) allow(key string, n int) error {
	if a.PublishLimit == nil {
		return nil
	}
	if wait := a.PublishLimit(key, n); wait > 0 {
		return call.RateLimited(wait)
	}
	return nil
}
