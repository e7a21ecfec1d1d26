package provider

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/push"
)

// Table judges the statuses that every provider uses alike. A sender first reads its provider's own words, and fills in the
// differences.
type Table struct {
	Name  string // of the provider, in reasons
	Scope string // the Pace.Scope that waits when the provider wants less
	// Denied is what 400, 401, 403 and 404 mean, unless Lenient.
	Denied func(status int, reason string) error
	// Least is the least wait after a 5xx that does not say. Nil: the caller's own backoff.
	Least func(asked time.Duration) time.Duration
	// Lenient: answers that make no sense are the receiver's own and final, since it is a program of anybody.
	Lenient bool
	Quiet   bool // nothing of the body is repeated in reasons
}

// Judge tells what an answer means; nil: the message was taken.
func (t *Table) Judge(a *Answer, now time.Time) error {
	reason := func(what string) string {
		r := fmt.Sprintf("%s answered %d: %s", t.Name, a.Status, what)
		if a.Status >= 400 && a.Status < 500 && !t.Quiet {
			r += a.Said()
		}
		return r
	}
	after := RetryAfter(a.Header, now)
	switch a.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return &push.RetryError{After: after, Scope: t.Scope, Reason: reason("too many requests, or overloaded")}
	case http.StatusGone:
		return &push.GoneError{Reason: reason("the address has ended")}
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return &push.RetryError{After: after, Reason: reason("not now")}
	}
	switch {
	case a.Status >= 200 && a.Status < 300:
		return nil
	case a.Status >= 500:
		if t.Least != nil {
			after = t.Least(after)
		}
		return &push.RetryError{After: after, Reason: reason("it failed")}
	case after > 0 && a.Status >= 400: // 406 of Microsoft's, say: whoever says when to come back wants us to
		return &push.RetryError{After: after, Scope: t.Scope, Reason: reason("not now")}
	}
	return t.refused(a, reason)
}

// Checked is the error of a call that tries the credentials and has no address: nothing else can be at fault.
func Checked(err error) error {
	var objection *push.ObjectionError
	if errors.As(err, &objection) && objection.Shared == push.Credential {
		return &push.ConfigError{Scope: objection.Scope, Reason: objection.Reason}
	}
	return err
}

// refused is a refusal that says nothing of later.
func (t *Table) refused(a *Answer, reason func(string) string) error {
	switch a.Status {
	case http.StatusRequestEntityTooLarge:
		return &push.PermanentError{Reason: reason("the message is too large")}
	case http.StatusLengthRequired, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return &push.PermanentError{Reason: reason("the message is refused")}
	}
	redirect := a.Status >= 300 && a.Status < 400
	switch {
	case t.Lenient && redirect:
		return &push.PermanentError{Reason: reason("redirects are not followed")}
	case t.Lenient:
		return &push.PermanentError{Reason: reason("the message is refused")}
	case redirect:
		return &push.RetryError{Scope: t.Scope, Reason: reason("redirects are not followed; something else may answer in its place")}
	case a.Page():
		return &push.RetryError{Scope: t.Scope, Reason: fmt.Sprintf("%s answered %d with a web page: something else may answer in its place", t.Name, a.Status)}
	}
	switch a.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return t.Denied(a.Status, reason("our credentials, our headers or the address are refused"))
	}
	return &push.RetryError{Scope: t.Scope, Reason: reason("which makes no sense here")}
}

// Page reports whether an answer is a web page. No provider's own answer is one: it comes from a proxy, or from a front
// end that has lost its service.
func (a *Answer) Page() bool {
	body := bytes.ToLower(bytes.TrimLeft(a.Body[:min(len(a.Body), 256)], "\ufeff \t\r\n"))
	return bytes.HasPrefix(body, []byte("<!doctype")) || bytes.HasPrefix(body, []byte("<html")) || bytes.HasPrefix(body, []byte("<head"))
}
