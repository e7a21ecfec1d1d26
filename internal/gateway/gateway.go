// Package gateway holds the code that the HTTP gateways share: reading the client's data from a request, answers to browsers of other
// origins, and PostingClient, the transport of clients that post frames.
package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/problem"
)

// Origins decides which browser pages may connect.
type Origins interface {
	// Origin reports whether a page of this origin may connect to an app as a client of this host. App is empty
	// while it is not known.
	Origin(app, origin, host string) bool
}

// Peer collects a client's data from its request: query, Authorization header and verified certificate.
func Peer(r *http.Request) session.Peer {
	q := r.URL.Query()
	p := session.Peer{Claim: access.Claim{
		App: q.Get("app"), Recipient: q.Get("recipient"), Group: q.Get("group"), Device: q.Get("device"),
		Token: access.Bearer(r.Header), CertURI: access.CertURI(r.TLS), Origin: r.Header.Get("Origin"), Host: r.Host,
	}}
	if p.Claim.Token == "" {
		p.Claim.Token = q.Get("token")
	}
	if addr, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		p.Addr = addr.Addr().Unmap()
	}
	return p
}

// Hello makes a hello from the query, for a client that can send no frame before it is welcomed. The error is a *notification.FieldError.
func Hello(r *http.Request, c access.Claim) (*frame.Hello, error) {
	q := r.URL.Query()
	h := &frame.Hello{App: c.App, Token: c.Token, Recipient: c.Recipient, Group: c.Group, Device: c.Device, Held: q["held"]}
	if v := q.Get("window"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return nil, notification.BadField("window", "must be a whole number from 1 to %d", frame.MaxWindow)
		}
		h.Window = n
	}
	if v := q.Get("heartbeat"); v != "" {
		d, err := notification.ParseDuration(v)
		if err != nil {
			return nil, notification.BadField("heartbeat", "%s", err)
		}
		h.Heartbeat = d
	}
	return h, Check(h)
}

// First makes the first frames from the query, for a client that can send no frame before its stream begins: it registers for objects=a,b
// and subscribes to topics=a.*,b with an optional queue. Lists may be repeated. The error is a *notification.FieldError.
func First(r *http.Request) (frames []*frame.Client, err error) {
	q := r.URL.Query()
	register := &frame.Client{Kind: frame.KindRegister}
	if register.Objects, err = names(q, "objects", frame.MaxObjects, notification.CheckName); err != nil {
		return nil, err
	}
	subscribe := &frame.Client{Kind: frame.KindSubscribe, Queue: []byte(q.Get("queue"))}
	if subscribe.Patterns, err = names(q, "topics", frame.MaxPatterns, topic.CheckPattern); err != nil {
		return nil, err
	}
	if len(subscribe.Queue) > 0 {
		if err := notification.CheckName("queue", string(subscribe.Queue)); err != nil {
			return nil, err
		}
	}
	if len(register.Objects) > 0 {
		frames = append(frames, register)
	}
	if len(subscribe.Patterns) > 0 {
		frames = append(frames, subscribe)
	}
	return frames, nil
}

// names reads lists with commas.
func names(q url.Values, field string, most int, check func(field, name string) error) (all [][]byte, err error) {
	for _, list := range q[field] {
		for name := range strings.SplitSeq(list, ",") {
			if err := check(field, name); err != nil {
				return nil, err
			}
			all = append(all, []byte(name))
		}
	}
	if len(all) > most {
		return nil, notification.BadField(field, "has %d names; at most %d are allowed", len(all), most)
	}
	return all, nil
}

// Check applies the rules for hellos to a hello that was made from a request.
func Check(h *frame.Hello) error {
	var e *frame.Error
	if err := h.Check(); errors.As(err, &e) {
		return notification.BadField(e.Field, "%s", strings.TrimPrefix(e.Message, "hello: "+e.Field+" "))
	}
	return nil
}

// Admit checks the origin of a browser's request: it adds the headers that let the page read the answer, or refuses the request. False
// means that the request has been answered, as a preflight or with an error.
func Admit(w http.ResponseWriter, r *http.Request, o Origins, methods string) bool {
	origin := r.Header.Get("Origin")
	if origin != "" {
		h := w.Header()
		h.Add("Vary", "Origin")
		if !o.Origin(r.URL.Query().Get("app"), origin, r.Host) {
			Fail(w, BadOrigin())
			return false
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Retry-After")
	}
	switch {
	case r.Method == http.MethodOptions:
		h := w.Header()
		h.Set("Allow", methods+", OPTIONS")
		if origin != "" {
			h.Set("Access-Control-Allow-Methods", methods)
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID")
			h.Set("Access-Control-Max-Age", "600")
		}
		w.WriteHeader(http.StatusNoContent)
		return false
	case r.Method != methods:
		w.Header().Set("Allow", methods+", OPTIONS")
		Fail(w, problem.MethodNotAllowed.With("this path takes "+methods))
		return false
	}
	return true
}

// BadOrigin is the error for a page that may not connect.
func BadOrigin() error {
	return problem.Origin.New()
}

// FailGone answers a request whose client has closed the connection, or only its own direction of it. net/http ends the request's context in
// both cases. A client that still reads must not get the status 200, which net/http sends for a handler that writes nothing.
func FailGone(w http.ResponseWriter) {
	Fail(w, problem.Canceled.With("the client closed its side of the connection before the answer; what was asked may have been done"))
}

// Fail answers with the problem document of an error.
func Fail(w http.ResponseWriter, err error) {
	p := problem.From(err)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="godwit"`)
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetrySeconds()))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // an error means that the client is gone
}

// BeginStream begins an answer that is a stream of events. A compressing proxy would hold a small event back until its window is full
// (no-transform: RFC 9111 section 5.2.2.6), and nginx until its buffer is full.
func BeginStream(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// RefuseStream answers a request for a stream of events whose client is refused: with a problem if the refusal is final,
// else with a stream that ends at once and gives the time to reconnect. A browser's EventSource gives up after any status
// but 200 (HTML section 9.2.3).
func RefuseStream(w http.ResponseWriter, bye frame.Goodbye) {
	if bye.Outlook() == frame.Never {
		Fail(w, Refused(bye))
		return
	}
	BeginStream(w)
	_, _ = w.Write(frame.AppendGoodbye(nil, frame.SSE, bye)) // an error means that the client is gone
}

// WantsStream reports whether a request comes from an EventSource.
func WantsStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// Refuse ends the session of a client that got a goodbye instead of a welcome, and answers with the equivalent problem.
func Refuse(w http.ResponseWriter, c *PostingClient, g frame.Goodbye) {
	c.Hangup()
	Fail(w, Refused(g))
}

// Refused returns the problem that is equivalent to a goodbye before the welcome.
func Refused(g frame.Goodbye) *problem.Problem {
	p := problem.Unavailable.With("the server said " + g.Reason + "; connect again later")
	switch g.Reason {
	case "bad_hello":
		p = problem.Refused.With("the server said " + g.Reason)
		if g.Error != nil {
			p = problem.BadInput.With(g.Error.Message).In(g.Error.Field)
		}
	case "unauthenticated", "token_expired":
		p = problem.Unauthenticated.With("a valid client token is required: Authorization: Bearer TOKEN, or the query parameter token")
	case "forbidden":
		p = problem.Forbidden.With("the credential is for another app, recipient, group, device or origin")
	case "unknown_app":
		p = problem.UnknownApp.New()
	case frame.RateLimited, frame.TooManySessions:
		p = problem.TooManyOfOne.With("the server said " + g.Reason + "; connect again later")
	case frame.AuthUnavailable:
		p = problem.From(access.ErrUnavailable)
	default:
		if g.Refusal {
			p = problem.Refused.With("the server said " + g.Reason)
		}
	}
	p.RetryAfter = max(p.RetryAfter, g.RetryAfter)
	return p
}
