package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/problem"
)

// fail answers with the problem of an error. Errors of the server's own are logged; what a client did wrong is not.
func (a *api) fail(c *call, err error) {
	p := problem.From(err)
	if p.Status >= http.StatusInternalServerError && !errors.Is(err, context.Canceled) && !errors.Is(err, errPanicked) {
		a.Log.WarnContext(c.r.Context(), "request failed", "route", c.r.Pattern, "status", p.Status, "app", c.key.App, "error", err)
	}
	if c.status != 0 {
		return // the answer has begun; its handler has said what it could
	}
	h := c.w.Header()
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="godwit"`)
	}
	if p.Status == http.StatusRequestEntityTooLarge {
		h.Set("Connection", "close") // the rest of the body is not worth reading
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(retrySeconds(p.RetryAfter)))
	}
	h.Set("Content-Type", "application/problem+json")
	_ = c.send(p.Status, append(appendProblem(nil, p), '\n'))
}

// appendProblem appends a problem document. Inside a list of results there is no header to carry how long to wait,
// so the document has it as well.
func appendProblem(b []byte, p *problem.Problem) []byte {
	b = append(b, `{"type":`...)
	b = appendString(b, p.Type)
	b = append(b, `,"title":`...)
	b = appendString(b, p.Title)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.Status), 10)
	if p.Detail != "" {
		b = append(b, `,"detail":`...)
		b = appendString(b, p.Detail)
	}
	if p.Field != "" {
		b = append(b, `,"field":`...)
		b = appendString(b, p.Field)
	}
	if p.RetryAfter > 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, int64(retrySeconds(p.RetryAfter)), 10)
	}
	return append(b, '}')
}

func retrySeconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// badField is bad input in a field.
func badField(field, format string, args ...any) error {
	return &notification.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

func needRole(role access.Role) error {
	return problem.Forbidden.With("the key does not have the role " + role.String())
}

func tooLarge(most int64) error {
	return problem.TooLarge.Withf("at most %d bytes are allowed", most)
}

func rateLimited(wait time.Duration) error {
	return problem.RateLimited.With("this key has used up its publish rate").After(wait)
}

// notStored is how a publish fails that the store could not take for a reason nobody foresaw: the publisher is to
// try again, and may, since the id makes a duplicate of what was stored after all.
func notStored(err error) error {
	if problem.From(err).Status != http.StatusInternalServerError {
		return err
	}
	return fmt.Errorf("%w: %w", problem.NotStored.New(), err)
}

// appendString appends s as a JSON string. What needs no escaping, which is nearly everything, is copied.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f || c == '<' || c == '>' || c == '&' {
			q, _ := json.Marshal(s) // a string always encodes
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

const timeFormat = "2006-01-02T15:04:05.000Z"

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, timeFormat)
	return append(b, '"')
}
