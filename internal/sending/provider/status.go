package provider

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// Table judges the statuses that all providers use alike. A sender first reads its provider's own error codes; the fields hold the
// provider's differences.
type Table struct {
	Name  string // of the provider, in reasons
	Scope string // the Pace.Scope that waits if the provider answers that it gets too many requests
	// Denied is the meaning of 400, 401, 403 and 404, unless Lenient.
	Denied func(status int, reason string) error
	// Least returns the wait after a 5xx, given the wait that the answer demands (0: none). Nil: the demanded wait, or else the caller's
	// own backoff.
	Least func(asked time.Duration) time.Duration
	// Lenient means that the receiver may be any program. It may answer 2xx with a page, and most of its refusals are its own and final. A
	// refusal may also come from the host's proxy: package judge compares it with the host's answers to others.
	Lenient bool
	Ends    bool // a 410 ends an address whatever its body is; if the body is a web page, package judge waits for results of the host's other addresses
	Quiet   bool // reasons repeat nothing of the body
}

// Judge returns the error that an answer means; nil: the message was accepted.
func (t *Table) Judge(a *Answer, now time.Time) error {
	reason := func(what string) string {
		r := fmt.Sprintf("%s answered %d: %s", t.Name, a.Status, what)
		if a.Status >= 400 && a.Status < 500 && !t.Quiet {
			r += a.Said()
		}
		return r
	}
	after := RetryAfter(a.Header, now)
	if a.Page() && (!t.Lenient || a.Status >= 300) {
		if err := t.page(a.Status); err != nil {
			return err
		}
	}
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
	case after > 0 && a.Status >= 400: // an answer that names a time to come back asks for another try, such as Microsoft's 406
		return &push.RetryError{After: after, Scope: t.Scope, Reason: reason("not now")}
	}
	return t.refused(a, reason)
}

// page interprets a web page instead of the provider's answer; nil: the status decides.
func (t *Table) page(status int) error {
	reason := fmt.Sprintf("%s answered %d with a web page: something else may answer in its place", t.Name, status)
	switch {
	case status == http.StatusGone && t.Ends:
		return &push.ObjectionError{Scope: t.Scope, Reason: reason, Ended: true, Shared: push.Host}
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestEntityTooLarge,
		status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return nil
	case t.Lenient:
		return &push.ObjectionError{Scope: t.Scope, Reason: reason, Shared: push.Host}
	}
	return &push.RetryError{Scope: t.Scope, Reason: reason}
}

// Checked converts the error of a call that only tries the credentials: since no address is involved, a refusal can only concern the
// credentials.
func Checked(err error) error {
	var objection *push.ObjectionError
	if errors.As(err, &objection) && objection.Shared == push.Credential {
		return &push.ConfigError{Scope: objection.Scope, Reason: objection.Reason}
	}
	return err
}

// refused returns the error for a refusal that demands no wait.
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
		return &push.ObjectionError{Scope: t.Scope, Reason: reason("redirects are not followed"), Shared: push.Host}
	case t.Lenient && ofHost[a.Status]:
		return &push.ObjectionError{Scope: t.Scope, Reason: reason("the message is refused"), Shared: push.Host}
	case t.Lenient:
		return &push.PermanentError{Reason: reason("the message is refused")}
	case redirect:
		return &push.RetryError{Scope: t.Scope, Reason: reason("redirects are not followed; something else may answer in its place")}
	}
	switch a.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return t.Denied(a.Status, reason("our credentials, our headers or the address are refused"))
	}
	return &push.RetryError{Scope: t.Scope, Reason: reason("which makes no sense here")}
}

// ofHost holds the statuses with which a proxy, or a server without its program, refuses requests to all that it serves.
var ofHost = map[int]bool{
	http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusNotFound: true, http.StatusMethodNotAllowed: true,
	http.StatusProxyAuthRequired: true, http.StatusMisdirectedRequest: true,
}

// Page reports whether an answer is a web page or another document of markup. No provider answers with one itself: it comes from a proxy,
// or from a front end that has lost its service.
func (a *Answer) Page() bool {
	return bytes.HasPrefix(bytes.TrimLeft(a.Body, "\ufeff \t\r\n"), []byte("<"))
}
