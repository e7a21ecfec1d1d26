// Package backend holds the calls of an app's back ends: publish, read statuses, recipients, objects, topics, endpoints and
// audiences, campaigns, events.
package backend

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/engine/memory"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Publisher stores and routes publishes; it returns once they are on disk, with one result for each draft.
type Publisher interface {
	Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result
}

// Mailbox is the part of mailboxes that back ends read and change.
type Mailbox interface {
	Recall(ctx context.Context, app, id, to string) (n int, err error)
	Lookup(ctx context.Context, app, id, to string) ([]mailbox.Record, error)
	History(ctx context.Context, app, recipient string, status notification.Status, limit int, cursor int64) (items []mailbox.Record, next int64, err error)
	Recipients(ctx context.Context, app string, limit int, cursor string) (items []mailbox.RecipientInfo, next string, err error)
}

// Objects reads and changes objects, and lists their registrations.
type Objects interface {
	Put(ctx context.Context, app string, k object.Key, p *object.Put) (st object.State, changed bool, err error)
	// Get reads one object; ok is false if it was never put.
	Get(ctx context.Context, app string, k object.Key) (st object.State, ok bool, err error)
	// List reads objects of a group whose names begin with prefix, by name; next is the cursor of the next page, or empty.
	List(ctx context.Context, app, group, prefix, after string, limit int) (items []objectstore.Item, next string, err error)
	Registrations(ctx context.Context, app string, k object.Key) ([]signal.Registration, error)
	// Groups lists the groups with objects, by name; next is the cursor of the next page, or empty.
	Groups(ctx context.Context, app, after string, limit int) (groups []string, next string, err error)
}

// Topics brings messages to subscribers.
type Topics interface {
	Publish(ctx context.Context, app string, m *pubsub.Message) error
}

// Campaigns has the operations on an app's campaigns.
type Campaigns interface {
	Create(ctx context.Context, app string, spec campaign.Spec, sendAt time.Time, idem string, body [sha256.Size]byte) (*campaign.View, error)
	Revise(ctx context.Context, app, id string, spec campaign.Spec, sendAt time.Time, must setting.Match) (*campaign.View, error)
	Get(ctx context.Context, app, id string) (*campaign.View, error)
	List(ctx context.Context, app string, limit int, cursor int64) ([]*campaign.View, error)
	Delete(ctx context.Context, app, id string, must setting.Match) error
	Start(ctx context.Context, app, id string, sendAt time.Time) (*campaign.View, error)
	Pause(ctx context.Context, app, id string) (*campaign.View, error)
	Resume(ctx context.Context, app, id string) (*campaign.View, error)
	Cancel(ctx context.Context, app, id string) (*campaign.View, error)
	Recall(ctx context.Context, app, id string) (*campaign.View, error)
	Correct(ctx context.Context, app, id string, k campaign.Correction) (*campaign.View, error)
	RetryUnknown(ctx context.Context, app, id string) (n int64, err error)
	Decide(ctx context.Context, app, id, variant string) (*campaign.View, error)
	Clone(ctx context.Context, app, id, name, idem string, body [sha256.Size]byte) (*campaign.View, error)
	Test(ctx context.Context, app, id string, endpoints []audience.ID) ([]campaign.Tested, error)
	Preview(ctx context.Context, app, id string, p campaign.Person, ch push.Channel, endpoint *audience.ID) (*campaign.Preview, error)
	ReportTo(ctx context.Context, app, id, recipient string) ([]campaign.Delivery, error)
	Report(ctx context.Context, app, id string, only *campaign.Outcome, limit int, cursor int64) (list []campaign.Delivery, next int64, err error)
	Days(ctx context.Context, app, id string, from, to time.Time) ([]campaign.Day, error)
}

// Templates are an app's.
type Templates interface {
	Set(ctx context.Context, app, name string, c template.Content, m template.Match) (set template.Template, created bool, err error)
	Get(ctx context.Context, app, name string) (*template.Template, error)
	List(ctx context.Context, app, after string, limit int) ([]template.Template, error)
	// Versions lists the kept revisions of a template, the newest first.
	Versions(ctx context.Context, app, name string) ([]template.Template, error)
	Delete(ctx context.Context, app, name string, m template.Match) error
}

// Segments looks up an app's segments.
type Segments interface {
	Get(ctx context.Context, app, name string) (segment.Segment, error)
	// Fill replaces the segment that an audience names by the segment's expression, which it returns.
	Fill(ctx context.Context, app string, a *audience.Audience, field string) (where string, err error)
}

// Parts holds what the handlers need.
type Parts struct {
	Publisher  Publisher
	Mailbox    Mailbox
	Recipients *recipient.Service
	Timelines  *timeline.Service
	Objects    Objects
	Topics     Topics
	Requests   Requests
	Events     event.Log
	Endpoints  *endpoint.Service
	Campaigns  Campaigns
	Templates  Templates
	Segments   Segments
	Broadcasts Broadcasts
	Log        *slog.Logger

	// PublishLimit takes n publishes from a key's budget; wait > 0: it refuses them, and the caller may try again after wait. Nil: no
	// limit.
	PublishLimit func(key string, n int) (wait time.Duration)
	// Draining, when closed, ends feeds so that the server can stop.
	Draining <-chan struct{}
	Node     string // this server's name, shown with its sessions
}

// API holds the handlers.
type API struct {
	Parts

	buffers call.Buffers
	batches *fair.Shares // bytes of bodies
	feeds   *fair.Shares
}

// New makes the handlers.
func New(p Parts) *API {
	return &API{Parts: p, batches: fair.NewShares(batchMemory(memory.Limit())), feeds: fair.NewShares(maxFeeds)}
}
