// Package pushgate is a push service (RFC 8030). Browsers and phones connect over WebSocket, with the subprotocol push-notification, and subscribe; back
// ends post messages to the push endpoints of those subscriptions. A device is a recipient of an app that nobody can make, so a message is a
// notification like any other and waits in a mailbox. DESIGN.md gives the reasons.
package pushgate

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway/pushgate/channeldb"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
)

// App is the app whose recipients are the devices. No name of an app has a tilde, so nobody can make it, and no key or token is for it.
const App = "~push"

// Limits. docs/guides/push-service.md has those that senders and devices notice.
const (
	maxClientMessage = 64 << 10         // bytes of a device's message: acknowledgements of some hundred messages
	maxBody          = 5630             // bytes of a message: 4,096 of content, encrypted, and the same as base64
	maxRaw           = 4096             // bytes of a message that is not encrypted
	maxAuthorization = 4 << 10          // bytes of a sender's token and key
	maxHeader        = 1 << 10          // bytes of a header that travels with a message
	bodyTime         = 10 * time.Second // for a sender to send a message
	helloTime        = 5 * time.Second  // for a device to say hello
	pingPause        = time.Second      // least, between two pings of a device
	atOnceStored     = 16               // writes of devices to the database at once, such as registrations
	maxWaiting       = 4096             // of one device that wait; the next ones are refused
	patience         = 5 * time.Second  // for a database
	atOnce           = time.Second      // how long a message with TTL 0 may take to a device that is connected
	defaultTTL       = 24 * time.Hour   // of a message that is not encrypted and names none
	sweepEvery       = time.Hour
)

// Publisher stores messages: *delivery.Service.
type Publisher interface {
	Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result
}

// Mailbox has what is stored: *mailbox.Mailbox.
type Mailbox interface {
	Online(ctx context.Context, app, recipient string) ([]string, error)
	Ack(ctx context.Context, app, recipient, device string, ids []string) (n int, err error)
	Recall(ctx context.Context, app, id, to string) (n int, err error)
	Erase(ctx context.Context, app, recipient string) error
}

// Config are the parts and settings of a Gateway.
type Config struct {
	Hub       *session.Hub
	Reactor   *reactor.Reactor
	Publisher Publisher
	Mailbox   Mailbox
	Channels  *channeldb.Store
	// Registers limits registrations by address. Nil: no limit.
	Registers interface{ Allow(addr netip.Addr) bool }
	Now       func() time.Time // the store's clock
	// Origins are those under which senders reach the server; the first is that of new push endpoints. Empty: the origin of each request.
	Origins []string
	Keep    time.Duration // how long a device may stay away; 0: for ever
	Beat    time.Duration // a device that is silent for so long is asked for a sign of life
	// PingPause is the least time between two pings of a device; one that pings faster is closed. 0: no limit.
	PingPause time.Duration
	Log       *slog.Logger
}

// Gateway is a push service.
type Gateway struct {
	cfg     Config
	began   time.Time
	later   *fair.Queue[func()] // writes of devices to the database
	senders senders
	counts  counts
	ctx     context.Context // ends registrations, which belong to the gateway
	stop    context.CancelFunc
}

// New makes a Gateway. Close must be called.
func New(cfg Config) *Gateway {
	g := &Gateway{cfg: cfg, began: time.Now(), counts: newCounts()}
	g.ctx, g.stop = context.WithCancel(context.Background())
	g.later = fair.NewQueue(atOnceStored, maxWaiting, func(write func()) { write() })
	return g
}

// Close ends what the gateway does in the background. All sessions must have ended before.
func (g *Gateway) Close() error {
	g.stop()
	g.later.Wait()
	return nil
}

// Sweep deletes the devices that have been away for too long, until ctx ends.
func (g *Gateway) Sweep(ctx context.Context) error {
	for {
		more, err := g.sweep(ctx)
		if err != nil && ctx.Err() == nil {
			g.cfg.Log.WarnContext(ctx, "push devices that have been away for too long are not deleted; trying again", "error", err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepEvery):
		}
	}
}

func (g *Gateway) sweep(ctx context.Context) (more bool, err error) {
	gone, more, err := g.cfg.Channels.Sweep(ctx, g.cfg.Now().Add(-g.cfg.Keep))
	for _, device := range gone {
		if failed := g.cfg.Mailbox.Erase(ctx, App, device); failed != nil {
			err = failed // its messages expire by themselves
		}
	}
	g.counts.swept.Add(float64(len(gone)))
	return more, err
}
