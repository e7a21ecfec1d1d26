// Package operator holds the calls for operators of the server or of an app: keys, channels, hooks, sources, statistics,
// health, profiles.
package operator

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/engine/latency"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/watch"
)

// Mailbox is the source of the statistics, and reports whether it can store.
type Mailbox interface {
	Items(ctx context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error)
	Stats() mailbox.Stats
	// Counts returns counts since start of stored copies, and of settled ones by their final status.
	Counts() (stored uint64, settled map[notification.Status]uint64)
	Ready(ctx context.Context) error
}

// Presence lists the live sessions. Queries to other nodes may take up to a quarter of a second; the result is partial if a node did not
// answer.
type Presence interface {
	// Slowest lists up to n sessions of an app with unacknowledged or queued messages, the slowest first.
	Slowest(ctx context.Context, app string, by session.Order, n int) (lags []session.Lag, partial bool, err error)
	// Live returns the number of sessions on this node.
	Live() int
	// Counts returns counts of notifications since start: all deliveries to sessions, the repeated ones among them, and acknowledgements by
	// sessions.
	Counts() (delivered, redelivered, acked uint64)
}

// Keys manages an app's API keys.
type Keys interface {
	Keys(app string) []access.Key
	// CreateKey makes a key and returns its secret, which cannot be read again.
	CreateKey(ctx context.Context, app, name string, roles access.Role) (access.Key, string, error)
	// DeleteKey fails with access.ErrUnknownKey if the app has no such key.
	DeleteKey(ctx context.Context, app, id string) error
	// MintToken signs a client's token with the app's own key.
	MintToken(app string, req access.TokenRequest) (text string, expires time.Time, err error)
}

// Figures holds the statistics of parts that the API does not use otherwise.
type Figures struct {
	Connections    int // on the event loops
	QueuedBytes    int64
	PublishLatency []latency.Bucket // over all interfaces for publishing, since start
	Objects        ObjectFigures
	Topics         TopicFigures
	Requests       RequestFigures
	Steps          StepFigures
}

// StepFigures counts the messages that steps of escalations sent and whose outcome is known, since start.
type StepFigures struct {
	Accepted, Failed uint64 // accepted by providers; refused, expired, or with unknown outcome
}

// RequestFigures counts the requests that were made through this node, since start.
type RequestFigures struct {
	Total, Failed uint64           // Failed had no answer, or one with status 500 or more
	Latency       []latency.Bucket // of those that were answered
}

// TopicFigures are about topics and their subscribers. Totals count since start.
type TopicFigures struct {
	Subscriptions                int    // of live sessions; each pattern counts as one
	Publishes, Messages, Dropped uint64 // published through this node's API; written to sessions; reported to sessions as gaps
}

// ObjectFigures are about objects and their registrations. Totals count since start.
type ObjectFigures struct {
	Registrations         int    // of live sessions
	Changes, Frames, Acks uint64 // changes stored, frames written to sessions, acknowledgements by sessions
}

// Management holds what manages apps, their keys and the operator key.
type Management struct {
	Keys Keys
	// Apps manages the apps, and the operator key.
	Apps Apps
	// OperatorFile is the file that gets a new operator key; empty: none does.
	OperatorFile string
}

// Feeds connect an app with outside services.
type Feeds struct {
	Hooks   Hooks
	Sources Sources
	Sinks   Sinks
}

// Parts holds what the handlers need.
type Parts struct {
	Management
	Mailbox  Mailbox
	Presence Presence
	Channels Channels
	Feeds
	Segments Segments
	Audit    AuditLog
	Gateway  Gateway
	Log      *slog.Logger

	Settings AppSettings

	// Registry is what /metrics shows.
	Registry *prometheus.Registry
	// Figures returns the figures for GET /v1/stats. Nil: there are none.
	Figures func() Figures
	Watch   *watch.Server
	Cluster Clusters // nil: there are no other nodes
	// Forget removes a lost node from the list; nil: there are no other nodes.
	Forget func(ctx context.Context, node string) error
	// Draining, when closed, makes the server not ready.
	Draining <-chan struct{}
	Ready    func(ctx context.Context) error // readiness of the server's other tasks; nil: it has none
	Version  string
	Node     string // this server's name, shown with its sessions
}

// API holds the handlers.
type API struct {
	Parts

	started time.Time
	created createdKeys
}

// New makes the handlers.
func New(p Parts) *API {
	return &API{Parts: p, started: time.Now()}
}
