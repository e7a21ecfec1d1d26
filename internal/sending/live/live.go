// Package live sends to the recipients' mailboxes: the channel live, for campaigns that reach people wherever they
// are connected.
package live

import (
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// Publisher stores and routes notifications; it returns once they are on disk.
type Publisher interface {
	Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result
}

// Recaller withdraws a notification from a recipient; n counts the copies withdrawn.
type Recaller interface {
	Recall(ctx context.Context, app, id, to string) (n int, err error)
}

// retryFull is the wait before another attempt at a full mailbox, or at a store without space.
const retryFull = 30 * time.Second

// Sender publishes to mailboxes. It sets no pace: publishing slows down by itself when the disk does.
type Sender struct {
	publisher Publisher
	recaller  Recaller
	now       func() time.Time
}

var (
	_ push.Sender   = (*Sender)(nil)
	_ push.Recaller = (*Sender)(nil)
)

// New makes a sender; now is the store's clock.
func New(p Publisher, r Recaller, now func() time.Time) *Sender {
	return &Sender{publisher: p, recaller: r, now: now}
}

// Send publishes to the recipient's mailbox. The notification's id derives from the delivery's, so a second attempt is a duplicate that
// changes nothing.
func (s *Sender) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return push.Receipt{}, &push.RetryError{Reason: "not published: " + provider.Cause(ctx)}
	}
	if r.Recall {
		return push.Receipt{}, &push.PermanentError{Reason: "a mailbox takes no message that recalls another"}
	}
	d, err := s.draft(&r)
	if err != nil {
		return push.Receipt{}, &push.PermanentError{Reason: err.Error()}
	}
	result := s.publisher.Publish(ctx, r.App, []*notification.Draft{d})[0]
	if result.Err == nil {
		result.Err = result.Copies[0].Err
	}
	if result.Err != nil {
		return push.Receipt{}, judge(result.Err)
	}
	return push.Receipt{ExternalID: d.ID}, nil
}

// judge turns a refusal into a sender's error. If the notification may have been stored, the error is UnknownError; sending it again is
// harmless.
func judge(err error) error {
	var field *notification.FieldError
	switch {
	case errors.As(err, &field) && field.Field == "expires_at":
		return &push.PermanentError{Reason: "expired before it was sent"}
	case errors.As(err, &field):
		return &push.PermanentError{Reason: field.Error()}
	case errors.Is(err, mailbox.ErrConflict):
		return &push.PermanentError{Reason: "the mailbox has another notification of this id"}
	case errors.Is(err, mailbox.ErrFull):
		return &push.RetryError{After: retryFull, Reason: "the mailbox is full"}
	case errors.Is(err, mailbox.ErrNoSpace):
		return &push.RetryError{After: retryFull, Credential: true, Reason: "the server has too little free disk space"}
	}
	return &push.UnknownError{Reason: "publish: " + provider.Clip(err.Error())}
}

func (s *Sender) draft(r *push.Request) (*notification.Draft, error) {
	if r.Recipient == "" {
		return nil, errors.New("the endpoint has no recipient, and so no mailbox")
	}
	d := &notification.Draft{To: []string{r.Recipient}, ID: r.GodwitID, CollapseKey: r.Collapse, Priority: priority(r.Urgency), Alone: true}
	if d.ID == "" {
		d.ID = r.ID
	}
	d.Content = notification.Content{Title: r.Content.Title, Body: r.Content.Body, Category: r.Content.Category, Data: r.Content.DataWithLinks()}
	if now := s.now(); !r.ExpiresAt.IsZero() {
		if d.ExpiresAt = r.ExpiresAt; d.ExpiresAt.Sub(now) > notification.MaxTTL {
			d.ExpiresAt = now.Add(notification.MaxTTL)
		}
	}
	return d, nil
}

func priority(u push.Urgency) notification.Priority {
	switch u {
	case push.UrgencyHigh:
		return notification.High
	case push.UrgencyLow:
		return notification.Low
	}
	return notification.Normal
}

// Recall withdraws notifications that are not acknowledged yet.
func (s *Sender) Recall(ctx context.Context, sent []push.Sent) []error {
	return provider.Each(sent, func(m *push.Sent) error {
		n, err := s.recaller.Recall(ctx, m.Request.App, m.ExternalID, m.Request.Recipient)
		switch {
		case errors.Is(err, mailbox.ErrNotFound):
			return &push.PermanentError{Reason: "it is no longer in the mailbox"}
		case err != nil:
			return &push.RetryError{Reason: "recall: " + provider.Clip(err.Error())}
		case n == 0:
			return &push.PermanentError{Reason: "it was acknowledged, replaced or had expired before"}
		}
		return nil
	})
}

// Kind is the channel live, which has no settings.
type Kind struct{ Sender *Sender }

var _ channel.Kind = Kind{}

// Fields are none.
func (Kind) Fields() []channel.Field { return nil }

// Auto returns true: the channel works without settings.
func (Kind) Auto() bool { return true }

// Complete has nothing to check.
func (Kind) Complete(channel.Values) (channel.Values, error) { return nil, nil }

// Shown adds nothing.
func (Kind) Shown(channel.Values) map[string]string { return nil }

// Open returns the sender, which serves all apps.
func (k Kind) Open(string, channel.Values) (push.Sender, error) {
	if k.Sender == nil {
		return nil, errors.New("mailboxes are in the running server: use the channel there")
	}
	return k.Sender, nil
}
