// Package provider is shared by the senders: it makes HTTP clients for many requests to few providers, and returns answers of limited size.
// Its errors report whether a request may have arrived, and contain no URL, since many URLs are secrets.
package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/foreign"
	"godwit.dev/godwit/internal/sending/h2post"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	// Timeout limits the wait for a provider's answer, connecting included. Providers answer within a second or not at all.
	Timeout = 20 * time.Second
	// maxAnswer limits the part of an answer that is read, in bytes; no meaningful answer is longer.
	maxAnswer = 16 << 10
	// maxRetryAfter limits the wait that a provider may demand, so that its mistake does not stop a campaign for ever.
	maxRetryAfter = 24 * time.Hour
	// pingAfter is the silence after which an HTTP/2 connection gets a ping; without pings, requests would be written into a dead
	// connection until the kernel gives it up.
	pingAfter = 15 * time.Second
)

// Client makes the HTTP client of a sender: it dials only the targets, and has few long-lived connections to each provider.
func Client(t urlguard.Targets) *http.Client { return client(t, 32) }

// Unbounded is Client without a bound on connections, for callers that bound their requests themselves.
func Unbounded(t urlguard.Targets) *http.Client { return client(t, urlguard.Unbounded) }

func client(t urlguard.Targets, conns int) *http.Client {
	c := t.Client(urlguard.Options{Timeout: Timeout, ConnsPerHost: conns})
	if t, ok := c.Transport.(*http.Transport); ok {
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter}
	}
	return c
}

// Posts makes a client for very many small messages that connects as c does; nil if c was not made by this package.
func Posts(c *http.Client) *h2post.Client { return PostsOver(c, 0) }

// PostsOver is Posts with at most conns connections to a server; 0: the usual limit.
func PostsOver(c *http.Client, conns int) *h2post.Client {
	t, ok := c.Transport.(*http.Transport)
	if !ok || t.DialContext == nil {
		return nil
	}
	return h2post.New(h2post.Config{
		Dial: t.DialContext, TLS: func() *tls.Config { return t.TLSClientConfig }, Timeout: Timeout, Silence: pingAfter, Idle: t.IdleConnTimeout, Conns: conns,
	})
}

// Close closes each of a sender's own connections as soon as it has no request under way, and waits for that. Both clients can still be
// used. posts may be nil.
func Close(c *http.Client, posts *h2post.Client) error {
	c.CloseIdleConnections()
	if posts == nil {
		return nil
	}
	return posts.Close()
}

// Address returns the host and port to connect to for an https URL.
func Address(u *url.URL) string {
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return u.Host
}

// Post is Do for a message over HTTP/2. unsuited reports that the server cannot accept it that way, and that nothing was sent.
func Post(ctx context.Context, c *h2post.Client, r *h2post.Request, name, scope string) (a Answer, unsuited bool, err error) {
	if ctx.Err() != nil {
		return a, false, &push.RetryError{Reason: "not sent to " + name + ": " + Cause(ctx)}
	}
	limited, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	got, sent, err := c.Post(limited, r)
	switch {
	case errors.Is(err, h2post.ErrUnsuited):
		return a, true, nil
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		err = foreign.Own("timeout")
	}
	if err != nil {
		var bye *h2post.GoAwayError
		if errors.As(err, &bye) {
			a.Farewell = bye.Said
		}
		return a, false, failed(ctx, err, name, scope, sent)
	}
	return Answer{Status: got.Status, Header: got.Header, Body: got.Body, Cut: got.Cut}, false, nil
}

// Answer is a provider's answer.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // as far as it could be read
	Cut    error  // the body broke off

	Farewell string // with an error: the server's reason for ending the connection without an answer
}

// Do sends a request and reads the answer. Errors call the provider name; scope is the Pace.Scope that waits when the provider cannot be
// reached. Errors are RetryError if nothing was sent, UnknownError if the request may have been sent, and PermanentError if the address is
// a private one.
func Do(c *http.Client, req *http.Request, name, scope string) (Answer, error) {
	return DoUpTo(c, req, name, scope, maxAnswer)
}

// DoUpTo is Do for answers of at most most bytes; longer ones are cut.
func DoUpTo(c *http.Client, req *http.Request, name, scope string, most int64) (Answer, error) {
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		return Answer{}, &push.RetryError{Reason: "not sent to " + name + ": " + Cause(ctx)}
	}
	// Until its headers are written, no part of a request can have arrived; providers accept no request without its body.
	var left atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { left.Store(true) }}
	resp, err := c.Do(req.WithContext(httptrace.WithClientTrace(ctx, trace))) // the client checks what it dials
	if err != nil {
		return Answer{}, failed(ctx, err, name, scope, left.Load())
	}
	defer resp.Body.Close()
	a := Answer{Status: resp.StatusCode, Header: resp.Header}
	if resp.ContentLength == 0 {
		return a, nil
	}
	a.Body, a.Cut = io.ReadAll(io.LimitReader(resp.Body, most))
	return a, nil
}

// failed returns the error of a request that got no answer.
func failed(ctx context.Context, err error, name, scope string, left bool) error {
	var private *urlguard.PrivateError
	if errors.As(err, &private) {
		return &push.PermanentError{Reason: name + " " + private.Error()}
	}
	if errors.Is(err, urlguard.ErrPrivate) {
		return &push.PermanentError{Reason: name + " is at an address that is not public"}
	}
	why := reason(ctx, err)
	if left {
		return &push.UnknownError{Reason: fmt.Sprintf("sent to %s, which gave no answer: %s", name, why)}
	}
	if ctx.Err() != nil { // a cancelled request is no evidence about the provider
		return &push.RetryError{Reason: fmt.Sprintf("not sent to %s: %s", name, why)}
	}
	return &push.RetryError{Credential: true, Scope: scope, Reason: fmt.Sprintf("%s cannot be reached: %s", name, why)}
}

// reason describes an error without the URL.
func reason(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return Cause(ctx)
	}
	var bye *h2post.GoAwayError
	if errors.As(err, &bye) && bye.Said != "" {
		return bye.Plain() + ": " + Clip(bye.Said)
	}
	return foreign.Cause(err)
}

// Cause returns the reason why a context has ended.
func Cause(ctx context.Context) string { return Clip(context.Cause(ctx).Error()) }

// RetryAfter reads the Retry-After header: seconds or a date. 0: absent or unreadable.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseInt(v, 10, 32); err == nil {
		return Bounded(time.Duration(n) * time.Second)
	}
	if at, err := http.ParseTime(v); err == nil {
		return Bounded(at.Sub(now))
	}
	return 0
}

// Bounded limits the wait that a provider demands to a range from 0 to 24 hours.
func Bounded(d time.Duration) time.Duration { return min(max(d, 0), maxRetryAfter) }

// Clip makes a provider's text fit for a reason that the app's admin reads: one short line without control characters or anything that
// looks like a token.
func Clip(s string) string { return foreign.Excerpt(s) }

// Said returns ": " and the beginning of an answer's body, for use in reasons; "": there is none.
func (a *Answer) Said() string {
	if text := Clip(string(a.Body[:min(len(a.Body), 256)])); text != "" {
		return ": " + text
	}
	return ""
}
