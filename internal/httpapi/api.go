// Package httpapi is the HTTP API for back ends: publish, status, recipients, events, keys and figures. It also
// carries the handlers of the client gateways, which it mounts and otherwise leaves alone.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/delivery"
	"godwit.dev/godwit/internal/endpoint"
	"godwit.dev/godwit/internal/event"
	"godwit.dev/godwit/internal/latency"
	"godwit.dev/godwit/internal/limit"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/metrics"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/object"
	"godwit.dev/godwit/internal/session"
	"godwit.dev/godwit/internal/signal"
)

// Publisher stores and routes publishes; it answers once they are on disk, with one result a draft.
type Publisher interface {
	Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result
}

// Mailbox is what the API reads and changes of mailboxes.
type Mailbox interface {
	Recall(ctx context.Context, app, id, to string) (n int, err error)
	Ack(ctx context.Context, app, recipient, device string, ids []string) (n int, err error)
	Lookup(ctx context.Context, app, id, to string) ([]mailbox.Record, error)
	History(ctx context.Context, app, recipient string, status notification.Status, limit int, cursor int64) (items []mailbox.Record, next int64, err error)
	Recipients(ctx context.Context, app string, limit int, cursor string) (items []mailbox.RecipientInfo, next string, err error)
	Recipient(ctx context.Context, app, recipient string) (mailbox.RecipientInfo, error)
	Erase(ctx context.Context, app, recipient string) error
	Items(ctx context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error)
	Stats() mailbox.Stats
	// Counts are of copies since start: stored, and settled by what ended them.
	Counts() (stored uint64, settled map[notification.Status]uint64)
	Ready(ctx context.Context) error
}

// Objects reads and changes objects, and says who is registered for them.
type Objects interface {
	Put(ctx context.Context, app string, k object.Key, p *object.Put) (st object.State, changed bool, err error)
	// Get reads one object; ok is false if nobody has put it.
	Get(ctx context.Context, app string, k object.Key) (st object.State, ok bool, err error)
	// List reads objects of a group whose names begin with prefix, by name; next is what to go on after, or empty.
	List(ctx context.Context, app, group, prefix, after string, limit int) (items []signal.Item, next string, err error)
	Registrations(ctx context.Context, app string, k object.Key) ([]signal.Registration, error)
	OfRecipient(ctx context.Context, app, recipient string) ([]signal.Registration, error)
	// Erase forgets a recipient's registrations.
	Erase(ctx context.Context, app, recipient string) error
}

// Presence knows the live sessions. Asking for those of other nodes may take up to a quarter of a second; an answer is
// partial if not all of them could be asked.
type Presence interface {
	// Sessions lists the sessions of each of these recipients.
	Sessions(ctx context.Context, app string, recipients []string) (live [][]session.Info, partial bool, err error)
	// Disconnect ends a recipient's sessions with a goodbye of this reason and says how many there were.
	Disconnect(ctx context.Context, app, recipient, reason string) (n int, partial bool, err error)
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
}

// ObjectFigures are of objects and of those who follow them. Totals count since start.
type ObjectFigures struct {
	Registrations         int    // of live sessions
	Changes, Frames, Acks uint64 // stored, written to sessions, acknowledged by them
}

// Apps knows the apps.
type Apps interface {
	// App returns an app, the only one if none is named, or access.ErrUnknownApp.
	App(name string) (access.App, error)
	// Anonymous reports whether visitors of a page of this origin may register with an app without a token.
	Anonymous(app, origin string) (name string, allowed bool)
}

// Config are the parts of the API.
type Config struct {
	Publisher Publisher
	Mailbox   Mailbox
	Objects   Objects
	Presence  Presence
	Events    event.Log
	Access    access.Access
	Keys      Keys
	Apps      Apps
	Channels  Channels
	Endpoints *endpoint.Service
	Campaigns Campaigns
	Hooks     Hooks
	Log       *slog.Logger

	// Registry receives the HTTP metrics and is what /metrics shows.
	Registry *prometheus.Registry
	// PublishLimit takes n publishes of a key from its budget; wait > 0: refused, come back after it. Nil: no limit.
	PublishLimit func(key string, n int) (wait time.Duration)
	// Figures are asked for by GET /v1/stats. Nil: there are none.
	Figures func() Figures
	// Signups limits registrations without a token by address. Nil: no limit.
	Signups *limit.Addrs
	// Mount adds handlers of the client gateways by mux pattern. They get the connection as it is: no deadline,
	// no wrapped writer, no body limit.
	Mount map[string]http.Handler
	// Draining, when closed, ends event feeds so that the server can stop.
	Draining <-chan struct{}
	Version  string
	Node     string // this server's name, shown with its sessions
}

type api struct {
	Config
	mux     *http.ServeMux
	metrics *metrics.HTTP
	started time.Time
	buffers sync.Pool
	batches *semaphore.Weighted
	feeds   *semaphore.Weighted
	created createdKeys
}

// New makes the handler of the whole HTTP listener.
func New(cfg Config) http.Handler {
	a := &api{
		Config: cfg, mux: http.NewServeMux(), metrics: metrics.NewHTTP(cfg.Registry), started: time.Now(),
		batches: semaphore.NewWeighted(maxBatchMemory), feeds: semaphore.NewWeighted(maxFeeds),
	}
	for _, rt := range a.routes() {
		a.handle(rt)
	}
	a.handle(route{pattern: "/", serve: a.notFound})
	for pattern, h := range cfg.Mount {
		a.mount(pattern, h)
	}
	return a.mux
}

// Limits of every connection. A slow or hostile client is cut off by them before any handler sees it.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second // a whole request of at most 256 KB
	writeTimeout      = 60 * time.Second // from the request's headers to the end of the answer; feeds lift it
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10 // tokens travel in headers; nothing of ours needs more
)

// Limit sets timeouts and header limits on the server that carries the handler of New.
func Limit(s *http.Server) {
	s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout = readHeaderTimeout, readTimeout, writeTimeout
	s.IdleTimeout, s.MaxHeaderBytes = idleTimeout, maxHeaderBytes
}
