// Package problem turns errors into what clients are told: RFC 9457 problems, the same over HTTP and gRPC.
package problem

import (
	"context"
	"errors"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/channel"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
)

// Problem is an RFC 9457 problem document.
type Problem struct {
	Type       string        `json:"type"`
	Title      string        `json:"title"`
	Status     int           `json:"status"`
	Detail     string        `json:"detail,omitempty"`
	Field      string        `json:"field,omitempty"` // of bad input
	RetryAfter time.Duration `json:"-"`               // for the Retry-After header
}

func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// New makes a problem whose type is "/problems/" + slug.
func New(status int, slug, title, detail string) *Problem {
	return &Problem{Type: "/problems/" + slug, Title: title, Status: status, Detail: detail}
}

// retryStore is how long to wait when the store cannot take a publish.
const retryStore = 2 * time.Second

// From says what to tell a client about err. Unknown errors become a 500 that hides their text.
func From(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var f *notification.FieldError
	if errors.As(err, &f) {
		return &Problem{Type: "/problems/bad-input", Title: "Bad input", Status: http.StatusBadRequest, Detail: f.Error(), Field: f.Field}
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			p := New(k.status, k.slug, k.title, k.detail)
			p.RetryAfter = k.retry
			return p
		}
	}
	return New(http.StatusInternalServerError, "internal", "Internal error", "the server could not answer; its log says why")
}

var known = []struct {
	err                 error
	status              int
	slug, title, detail string
	retry               time.Duration
}{
	{mailbox.ErrConflict, http.StatusConflict, "id-conflict", "Id is taken", "a notification with this id and other content exists for this recipient; use another id", 0},
	{mailbox.ErrFull, http.StatusTooManyRequests, "mailbox-full", "Mailbox is full", "the recipient has too many pending notifications; wait until some are acknowledged or expire", 30 * time.Second},
	{mailbox.ErrNotFound, http.StatusNotFound, "not-found", "Not found", "there is no such thing in this app", 0},
	{audience.ErrNotFound, http.StatusNotFound, "not-found", "Not found", "there is no such endpoint in this app", 0},
	{audience.ErrTaken, http.StatusConflict, "address-taken", "Address is taken", "the address or id belongs to another endpoint of this app", 0},
	{mailbox.ErrNoSpace, http.StatusServiceUnavailable, "no-space", "Disk is full", "the server has too little free disk space to store this; retry later with the same id", 30 * time.Second},
	{mailbox.ErrClosed, http.StatusServiceUnavailable, "closing", "Server is stopping", "retry with the same id", retryStore},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "timeout", "Took too long", "it may have been stored: retry with the same id", retryStore},
	{context.Canceled, http.StatusServiceUnavailable, "canceled", "Canceled", "it may have been stored: retry with the same id", retryStore},
	{access.ErrUnauthenticated, http.StatusUnauthorized, "unauthenticated", "Not authenticated", "send Authorization: Bearer KEY with a valid key", 0},
	{access.ErrForbidden, http.StatusForbidden, "forbidden", "Not allowed", "the key's roles do not allow this", 0},
	{access.ErrUnknownApp, http.StatusNotFound, "unknown-app", "No such app", "name an existing app", 0},
	{channel.ErrUnknown, http.StatusNotFound, "not-found", "Not found", "this server has no channel of that name; GET /v1/channels lists them", 0},
	{channel.ErrNotConfigured, http.StatusConflict, "channel-unconfigured", "Channel is not configured", "set its credentials with PUT /v1/channels/{channel}", 0},
	{channel.ErrDisabled, http.StatusConflict, "channel-disabled", "Channel is disabled", "enable it with PUT /v1/channels/{channel}", 0},
	{access.ErrUnavailable, http.StatusServiceUnavailable, "auth-unavailable", "Cannot check credentials", "the app's token service did not answer; retry", retryStore},
}
