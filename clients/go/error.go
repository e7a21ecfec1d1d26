package godwit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is an error answer of the server: an RFC 9457 problem.
type Error struct {
	Status     int    // the HTTP status
	Type       string // "/problems/mailbox-full": stable, for programs
	Title      string
	Detail     string
	Field      string        // the request's field that caused the error, if there is one
	RetryAfter time.Duration // how long the server asks to wait before a retry; 0: not given
}

func (e *Error) Error() string {
	text := e.Detail
	if text == "" {
		text = strings.ToLower(e.Title)
	}
	if text == "" {
		text = strings.ToLower(http.StatusText(e.Status))
	}
	return fmt.Sprintf("server answered %d: %s", e.Status, text)
}

// Errors of Ask and AskRecipient. The returned *Error has more detail; errors.Is matches it with these.
var (
	// ErrNobodyServes: the request was not delivered, because no worker serves the subject, all workers are busy, or the recipient is not
	// connected. The request may be repeated without harm.
	ErrNobodyServes = errors.New("nobody could be asked")
	// ErrNoAnswer: no answer arrived in time, or the worker's connection ended first. The worker may have carried out the request.
	ErrNoAnswer = errors.New("no answer came")
)

// Is makes errors.Is match a problem with ErrNobodyServes and ErrNoAnswer.
func (e *Error) Is(target error) bool {
	switch e.Type {
	case "/problems/nobody-serves", "/problems/workers-busy", "/problems/not-connected":
		return target == ErrNobodyServes
	case "/problems/no-answer", "/problems/worker-gone":
		return target == ErrNoAnswer
	}
	return false
}

// temporary reports whether the same request may succeed later. Every request that this client retries has its own id, so the server does
// not carry out the request twice.
func (e *Error) temporary() bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// RefusedError ends Listen: the server does not accept this client, or no longer, and an unchanged retry would fail again.
type RefusedError struct {
	Reason string // reason of the server's goodbye: unauthenticated, forbidden, replaced, ...
	Err    error  // more, where there is more
}

func (e *RefusedError) Error() string {
	if e.Err != nil {
		return "server refused the session: " + e.Err.Error()
	}
	return "server refused the session: " + e.Reason
}

func (e *RefusedError) Unwrap() error { return e.Err }

// ErrRecalled is the cause of the handler's context when the notification was settled elsewhere or withdrawn.
var ErrRecalled = errors.New("notification was recalled")

type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field"`
}

func (p *problem) err() *Error {
	return &Error{Status: p.Status, Type: p.Type, Title: p.Title, Detail: p.Detail, Field: p.Field}
}

// responseError reads the error from a response that is not a success.
func responseError(r *http.Response, body []byte) *Error {
	var p problem
	if json.Unmarshal(body, &p) != nil {
		p = problem{Detail: strings.TrimSpace(string(body[:min(len(body), 200)]))}
	}
	p.Status = r.StatusCode
	e := p.err()
	e.RetryAfter = retryAfter(r.Header.Get("Retry-After"), time.Now())
	return e
}

// retryAfter reads RFC 9110 section 10.2.3: seconds or a date.
func retryAfter(h string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(h, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(h); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}
