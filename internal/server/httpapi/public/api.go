// Package public holds the calls that need no API key: acknowledgements, sign-up of endpoints, reports of receivers,
// files that browsers load, and the calls of services that Godwit can replace.
package public

import (
	"context"
	"log/slog"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Mailbox takes acknowledgements.
type Mailbox interface {
	Ack(ctx context.Context, app, recipient, device string, ids []string) (n int, err error)
}

// Receipts handles receivers' reports, which contain their messages' tokens.
type Receipts interface {
	// Acknowledge settles the messages of the tokens; event is a further reaction to record. sealed.ErrBad: none of the
	// tokens is valid.
	Acknowledge(ctx context.Context, tokens []string, event *push.Reaction) (n int, err error)
}

// Apps knows the apps.
type Apps interface {
	// App returns an app, the only one if none is named, or access.ErrUnknownApp.
	App(name string) (access.App, error)
	// Anonymous reports whether visitors of pages of this origin may register with an app without a token.
	Anonymous(app, origin string) (name string, allowed bool)
}

// Campaigns records receivers' reactions to a message, which a signed token identifies.
type Campaigns interface {
	React(ctx context.Context, token string, what campaign.Reaction) error
	Follow(ctx context.Context, token, link string, person bool) error
}

// Channels returns the keys that pages need to subscribe.
type Channels interface {
	WebPushKey(ctx context.Context, app string) (string, error)
}

// Parts holds what the handlers need.
type Parts struct {
	Access    access.Access
	Apps      Apps
	Mailbox   Mailbox
	Receipts  Receipts // nil: no message has an acknowledgement token
	Endpoints *endpoint.Service
	Campaigns Campaigns
	Channels  Channels
	Log       *slog.Logger

	Preferences Preferences

	// Signups limits, for each address, the registrations without a token. Nil: no limit.
	Signups *limit.Addrs
	// AckLimit limits, for each address, the acknowledgements by token. Nil: no limit.
	AckLimit *limit.Addrs
}

// API holds the handlers.
type API struct {
	Parts

	buffers    call.Buffers
	registered call.Bodies // endpoints, by back ends
}

// New makes the handlers.
func New(p Parts) *API {
	return &API{Parts: p}
}
