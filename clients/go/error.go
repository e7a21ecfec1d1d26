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

// Error is the server's error answer: an RFC 9457 problem.
type Error struct {
	Status     int    // the HTTP status
	Type       string // "/problems/mailbox-full": stable, for programs
	Title      string
	Detail     string
	Field      string        // of the request, where one is to blame
	RetryAfter time.Duration // the wait that the server demands; 0: none given
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

// Errors of Ask and AskRecipient, which errors.Is finds in the more detailed *Error.
var (
	// ErrNobodyServes: the request was not delivered, because no worker serves the subject, all of them are busy, or the
	// recipient is not connected. Another try is harmless.
	ErrNobodyServes = errors.New("nobody could be asked")
	// ErrNoAnswer: no answer came in time, or the worker's connection ended first. The worker may have carried out the
	// request.
	ErrNoAnswer = errors.New("no answer came")
)

// Is matches a problem with the errors of requests.
func (e *Error) Is(target error) bool {
	switch e.Type {
	case "/problems/nobody-serves", "/problems/workers-busy", "/problems/not-connected":
		return target == ErrNobodyServes
	case "/problems/no-answer", "/problems/worker-gone":
		return target == ErrNoAnswer
	}
	return false
}

// temporary reports whether the same request may succeed later. Everything this client retries carries its own id, so a
// request that was carried out after all is not carried out twice.
func (e *Error) temporary() bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// RefusedError ends Listen: the server does not let this client connect, or not any more, and trying again as it is
// would not help.
type RefusedError struct {
	Reason string // of the server's goodbye: unauthenticated, forbidden, replaced, ...
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
