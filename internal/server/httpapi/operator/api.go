// Package operator holds the calls for those who run the server or an app: keys, channels, hooks, sources, figures, health,
// profiles.
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

// Mailbox is the source of the figures, and says whether it can store.
type Mailbox interface {
	Items(ctx context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error)
	Stats() mailbox.Stats
	// Counts counts copies since start: those stored, and those settled, by the status that they ended with.
	Counts() (stored uint64, settled map[notification.Status]uint64)
	Ready(ctx context.Context) error
}

// Presence knows the live sessions. Asking for those of other nodes may take up to a quarter of a second; an answer is
// partial if not all of them could be asked.
type Presence interface {
	// Slowest lists up to n sessions of an app that have something unacknowledged or queued, the slowest first.
	Slowest(ctx context.Context, app string, by session.Order, n int) (lags []session.Lag, partial bool, err error)
	// Live counts the sessions of this node.
	Live() int
	// Counts are of notifications since start: written to sessions, of these again, and acknowledged by sessions.
	Counts() (delivered, redelivered, acked uint64)
}

// Keys manages an app's API keys.
type Keys interface {
	Keys(app string) []access.Key
	// CreateKey makes a key; its secret is returned this once.
	CreateKey(ctx context.Context, app, name string, roles access.Role) (access.Key, string, error)
	// DeleteKey fails with access.ErrUnknownKey if the app has no such key.
	DeleteKey(ctx context.Context, app, id string) error
}

// Figures are of parts that the API has no other business with.
type Figures struct {
	Connections    int // on the event loops
	QueuedBytes    int64
	PublishLatency []latency.Bucket // of all ways to publish, since start
	Objects        ObjectFigures
	Topics         TopicFigures
	Requests       RequestFigures
	Steps          StepFigures
}

// StepFigures count the messages that steps of escalations sent and whose outcome is decided, since start.
type StepFigures struct {
	Accepted, Failed uint64 // taken by providers; refused, out of time, or nobody can tell
}

// RequestFigures are of requests that were made through this node, since start.
type RequestFigures struct {
	Total, Failed uint64           // without an answer, or with one of 500 or more
	Latency       []latency.Bucket // of those that were answered
}

// TopicFigures are of topics and of those who subscribe. Totals count since start.
type TopicFigures struct {
	Subscriptions                int    // of live sessions, each pattern counted
	Publishes, Messages, Dropped uint64 // through this node's API, written to sessions, told them as gaps
}

// ObjectFigures are of objects and of those who follow them. Totals count since start.
type ObjectFigures struct {
	Registrations         int    // of live sessions
	Changes, Frames, Acks uint64 // stored, written to sessions, acknowledged by them
}

// Parts are what the handlers stand on.
type Parts struct {
	Mailbox  Mailbox
	Presence Presence
	Keys     Keys
	Channels Channels
	Hooks    Hooks
	Sources  Sources
	Audit    AuditLog
	Sinks    Sinks
	Gateway  Gateway
	Log      *slog.Logger

	Categories Categories

	// Registry is what /metrics shows.
	Registry *prometheus.Registry
	// Figures are asked for by GET /v1/stats. Nil: there are none.
	Figures func() Figures
	Watch   *watch.Server
	Cluster Clusters // nil: there are no other nodes
	// Forget takes a node off the list that was lost; nil: there are no other nodes.
	Forget func(ctx context.Context, node string) error
	// Draining, when closed, makes the server not ready.
	Draining <-chan struct{}
	Ready    func(ctx context.Context) error // of what else the server is there for; nil: there is nothing else
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
