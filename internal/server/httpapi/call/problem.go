package call

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/problem"
)

// AppendProblem appends a problem document. A problem within a list of results has no Retry-After header, so the document contains the wait
// as well.
func AppendProblem(b []byte, p *problem.Problem) []byte {
	b = append(b, `{"type":`...)
	b = AppendString(b, p.Type)
	b = append(b, `,"title":`...)
	b = AppendString(b, p.Title)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.Status), 10)
	if p.Detail != "" {
		b = append(b, `,"detail":`...)
		b = AppendString(b, p.Detail)
	}
	if p.Field != "" {
		b = append(b, `,"field":`...)
		b = AppendString(b, p.Field)
	}
	if p.RetryAfter > 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, int64(p.RetrySeconds()), 10)
	}
	return append(b, '}')
}

// NeedRole returns the problem for a key that lacks a role.
func NeedRole(role access.Role) error {
	return problem.Forbidden.With("the key does not have the role " + role.String())
}

// TooLarge returns the problem for a body of more than most bytes.
func TooLarge(most int64) error {
	return problem.TooLarge.Withf("at most %d bytes are allowed", most)
}

// RateLimited returns the problem for a key that publishes too fast.
func RateLimited(wait time.Duration) error {
	return problem.RateLimited.With("this key has used up its publish rate").After(wait)
}

// NotStored returns the problem for a publish that the store failed to accept for an unforeseen reason. Another try is safe: if the publish
// was stored after all, its id makes the second one a duplicate.
func NotStored(err error) error {
	if problem.From(err).Status != http.StatusInternalServerError {
		return err
	}
	return fmt.Errorf("%w: %w", problem.NotStored.New(), err)
}

// AppendString appends s as a JSON string. Strings that need no escaping, which are nearly all, are copied.
func AppendString(b []byte, s string) []byte {
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

// TimeFormat is the format of every time in an answer.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// AppendTime appends a time as JSON.
func AppendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, TimeFormat)
	return append(b, '"')
}

// OtherApp returns the problem for a call that names another app than its key's.
func OtherApp() error {
	return problem.Forbidden.With("app: the key belongs to another app").In("app")
}
