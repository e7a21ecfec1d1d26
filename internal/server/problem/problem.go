// Package problem defines every problem that an answer to clients may contain, and converts errors to them: RFC 9457 problems, the same
// over HTTP and gRPC.
package problem

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
)

// Problem is an RFC 9457 problem document. A Type makes it.
type Problem struct {
	Type       string        `json:"type"`
	Title      string        `json:"title"`
	Status     int           `json:"status"`
	Detail     string        `json:"detail,omitempty"`
	Field      string        `json:"field,omitempty"` // of bad input
	RetryAfter time.Duration `json:"-"`               // for the Retry-After header
}

func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// In sets the field that has the problem.
func (p *Problem) In(field string) *Problem {
	p.Field = field
	return p
}

// elsewhere lists the problems with a status from 500 on whose cause is not this server: workers, clients, apps' own servers, or a stop that
// somebody asked for.
var elsewhere = []Type{AuthUnavailable, BadAnswer, Canceled, Closing, HTTPVersion, NoAnswer, NobodyServes, NotConnected, NotSupported, WorkerGone, WorkersBusy}

// OfServer reports whether the server's operator should look for the cause.
func (p *Problem) OfServer() bool {
	return p.Status >= http.StatusInternalServerError && !slices.ContainsFunc(elsewhere, func(t Type) bool { return p.Type == t.New().Type })
}

// RetrySeconds returns the value of the Retry-After header.
func (p *Problem) RetrySeconds() int { return max(1, int(math.Ceil(p.RetryAfter.Seconds()))) }

// After sets the time to wait before another try.
func (p *Problem) After(wait time.Duration) *Problem {
	p.RetryAfter = wait
	return p
}

// From returns the problem that a client gets for err. Unknown errors become a 500 that hides their text.
func From(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var f *notification.FieldError
	if errors.As(err, &f) {
		return BadInput.With(f.Error()).In(f.Field)
	}
	var n *endpoint.NotAllowedError
	if errors.As(err, &n) {
		return Forbidden.With(n.Why)
	}
	var d *mailbox.DamagedError
	if errors.As(err, &d) {
		return StoreDamaged.With(d.What)
	}
	var tag *access.TagError
	if errors.As(err, &tag) {
		return RevisionMismatch.With(tag.Error())
	}
	var changed *setting.ChangedError
	if errors.As(err, &changed) {
		return RevisionMismatch.With(changed.Error())
	}
	var used *segment.UsedError
	if errors.As(err, &used) {
		return InUse.With(used.Error())
	}
	var b *request.BadAnswerError
	if errors.As(err, &b) {
		return BadAnswer.With(b.Error())
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			if k.detail != "" {
				return k.is.With(k.detail)
			}
			return k.is.New()
		}
	}
	return Internal.New()
}

// known lists the capabilities' errors that an answer to a client may contain.
var known = []struct {
	err    error
	is     Type
	detail string // empty: the type's
}{
	{mailbox.ErrConflict, IDConflict, ""},
	{mailbox.ErrFull, MailboxFull, ""},
	{mailbox.ErrNotFound, NotFound, ""},
	{audience.ErrNotFound, NotFound, "there is no such endpoint in this app"},
	{audience.ErrTaken, AddressTaken, ""},
	{mailbox.ErrNoSpace, NoSpace, ""},
	{mailbox.ErrClosed, Closing, ""},
	{mailbox.ErrAway, StoreAway, ""},
	{topic.ErrNoResponders, NobodyServes, ""},
	{request.ErrOffline, NotConnected, ""},
	{request.ErrBusy, WorkersBusy, ""},
	{request.ErrNoAnswer, NoAnswer, ""},
	{request.ErrWorkerGone, WorkerGone, ""},
	{context.DeadlineExceeded, Timeout, ""},
	{context.Canceled, Canceled, ""},
	{access.ErrUnauthenticated, Unauthenticated, ""},
	{access.ErrForbidden, Forbidden, ""},
	{access.ErrUnknownApp, UnknownApp, ""},
	{access.ErrUnknownKey, NotFound, "the app has no key with this id"},
	{access.ErrExists, Exists, ""},
	{access.ErrOperatorChanged, RevisionMismatch, "another operator has replaced the operator key meanwhile"},
	{access.ErrNoBatch, NotFound, "the group has no batching interval of its own"},
	{access.ErrUnknownCategory, NotFound, "nobody has said anything of this category"},
	{access.ErrUnknownService, NotFound, "nobody has set how this service is called; the defaults hold for it"},
	{hook.ErrUnknown, NotFound, "the app has no hook of this name"},
	{sink.ErrUnknown, NotFound, "there is no such kind of sink; there is clickhouse"},
	{sink.ErrNone, NotFound, "the app has no sink of this kind; PUT /v1/sinks/clickhouse makes one"},
	{source.ErrUnknown, NotFound, "there is no such kind of source; there is redisstream"},
	{source.ErrNone, NotFound, "the app has no source of this name; PUT /v1/sources/{name} makes one"},
	{segment.ErrUnknown, NotFound, "the app has no segment of this name"},
	{template.ErrUnknown, NotFound, "the app has no template of this name"},
	{template.ErrRevision, RevisionMismatch, ""},
	{campaign.ErrNotFound, NotFound, "the app has no campaign with this id"},
	{campaign.ErrReused, IdempotencyMismatch, ""},
	{campaign.ErrBadToken, BadToken, ""},
	{channel.ErrUnknown, NotFound, "this server has no channel of that name; GET /v1/channels lists them"},
	{channel.ErrNotConfigured, ChannelUnconfigured, ""},
	{channel.ErrDisabled, ChannelDisabled, ""},
	{access.ErrErasing, AuthUnavailable, "the data of a deleted app of this name is still being erased; the new app is served once that is done: retry"},
	{access.ErrUnavailable, AuthUnavailable, ""},
	{topic.ErrUnavailable, BusUnavailable, ""},
}
