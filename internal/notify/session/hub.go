// Package session runs live sessions: hello, window, acknowledgements, heartbeat and the registry of connected
// recipients. It sees connections only as Transports and mailboxes only through the small interfaces it declares.
package session

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/engine/timerwheel"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// Store is the part of the mailboxes' store that sessions read and write.
type Store interface {
	mailbox.Reader
	SettleLater(batch []*mailbox.Settle)
	// Mark records clients' answers that do not settle a copy. The batch stays the caller's.
	Mark(batch []mailbox.Mark)
	Seen(batch []mailbox.Seen)
}

// Mailbox records deliveries and routes notifications once they are durable.
type Mailbox interface {
	Delivered(marks []mailbox.Mark)
	// RouteTo makes r the receiver of notifications that become durable from now on, and p the source of presence.
	RouteTo(r mailbox.Router, p mailbox.Presence)
}

// Verifier authenticates clients. It is never called from a connection's loop.
type Verifier interface {
	// Known verifies at once, with the keys and answers known on this node. *access.AskError: these are not enough.
	Known(c access.Claim) (access.Client, error)
	// Client queries the app's own server if necessary, which may take long.
	Client(ctx context.Context, c access.Claim) (access.Client, error)
}

// Config are the parts and settings of a Hub.
type Config struct {
	Store    Store   // of the mailboxes
	Mailbox  Mailbox // which observes it
	Verifier Verifier
	Events   mailbox.Emitter
	// Capabilities are features of sessions in addition to the mailbox. The answer to frames that none of them handles is "unsupported".
	Capabilities []Capability
	Log          *slog.Logger
	Now          func() time.Time           // the store's clock
	Admit        func(addr netip.Addr) bool // limits hellos by address; nil: no limit
	Window       int                        // default window; 0: 64
	Redeliver    time.Duration              // time until an unacknowledged notification is written again; it doubles up to 5 minutes; 0: 10 s
	Reread       time.Duration              // a session compares itself with the store at least this often; 0: 30 s
	Peers        Peers                      // the other nodes; nil: there are none
	Inboxes      Inboxes                    // nil: the store has none
	Node         string                     // suffix of session ids, by which other nodes find a session's node; empty: none
}

// Limits and timing of sessions. The client protocol documents those that clients can observe.
const (
	defaultWindow    = 64
	maxWindow        = 1024
	defaultHeartbeat = 30 * time.Second
	minHeartbeat     = 5 * time.Second
	maxHeartbeat     = 24 * time.Hour
	defaultReread    = 30 * time.Second
	helloTimeout     = 10 * time.Second
	redeliverFirst   = 10 * time.Second
	redeliverMost    = 5 * time.Minute
	maxPerRecipient  = 64               // sessions of one recipient; each costs a write on every publish
	maxBadFrames     = 100              // undecodable frames in a row after which a client is disconnected
	verifiers        = 64               // hellos verified at once with the keys and answers known here
	askers           = 64               // hellos verified at once by apps' servers; one app may use all that are free
	askQueue         = 4096             // hellos of one app that wait for its server
	askPatience      = 10 * time.Second // longest wait in that queue; then the client must reconnect later
	readers          = 5                // catch-up reads at the same time; one app can use all but one
	readBytes        = 512 << 10        // bytes read at once for one session: slightly more than a transport accepts
	readBatch        = 256              // sessions in one catch-up read
	shutdownPerSec   = 5000
	shutdownMost     = 30 * time.Second
)

// Peer is a gateway's data about a client before its hello.
type Peer struct {
	Claim access.Claim // from the URL, headers, metadata or certificate; the hello adds to it
	Addr  netip.Addr
}

// Hub is the registry of this node's sessions.
type Hub struct {
	cfg   Config
	log   *slog.Logger
	start time.Time
	reg   registry

	capabilities []Capability
	handlers     [frame.KindPing + 1]handler // by kind of frame; the last kind is the highest

	peers   Peers
	several bool                                      // there may be other nodes
	beside  func() int                                // counts further sessions that do not belong to this hub; nil: there are none
	away    []func(app, recipient, reason string) int // end what gateways keep of clients that are away

	wheel   *timerwheel.Wheel[*Session]
	timers  sync.WaitGroup
	verify  jobs[verification]
	ask     *fair.Queue[verification]
	held    *fair.Queue[heldCheck]
	release jobs[[]*mailbox.Settle]
	behind  catchUps
	kept    kept
	blind   atomic.Bool // the last store read failed
	scratch sync.Pool   // *scratch
	counts  counts

	inboxNews inboxNews
	recounts  recounts
	answers   atomic.Pointer[func(app, recipient, id, action string)] // nil: nobody keeps answers
	closing   atomic.Bool
	leaving   atomic.Bool     // sessions are moved to other nodes while this node cannot reach the store
	ctx       context.Context // ends with the hub: bounds verification and store reads
	stop      context.CancelFunc
}

// NewHub makes a Hub. Close must be called.
func NewHub(cfg Config) *Hub {
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	if cfg.Redeliver == 0 {
		cfg.Redeliver = redeliverFirst
	}
	if cfg.Reread == 0 {
		cfg.Reread = defaultReread
	}
	h := &Hub{cfg: cfg, log: cfg.Log, start: cfg.Now(), peers: cfg.Peers, several: cfg.Peers != nil}
	h.counts.took = took{mailbox.NewDelivered("live"), mailbox.NewAcked("live")}
	if h.peers == nil {
		h.peers = nobody{h}
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.reg.init()
	h.recounts.used = cfg.Inboxes != nil && cfg.Inboxes.InboxesUsed()
	h.offer(cfg.Capabilities)
	h.scratch.New = func() any { return new(scratch) }
	h.verify.limit, h.verify.do = verifiers, h.verified
	h.ask = fair.NewQueue(askers, askQueue, h.asked)
	h.held = fair.NewQueue(heldChecks, heldQueue, h.checkHeld)
	h.release.limit, h.release.do = 1, h.settleLater
	h.behind.limit = readers
	h.wheel = timerwheel.New(tick, func(t *timerwheel.Timer[*Session], _ time.Time) { t.Owner.tick() })
	h.timers.Go(func() { h.wheel.Run(h.ctx) })
	cfg.Mailbox.RouteTo(h, h)
	return h
}

// tick is the resolution of session timers.
const tick = 100 * time.Millisecond

// instant is a time in ticks since the hub started: four bytes instead of twenty-four.
type instant uint32

// grain is the precision with which the starts of two sessions are compared; it is finer than a tick.
const grain = 2 * time.Microsecond

// never stands for no time.
const never = ^instant(0)

func (h *Hub) instant() instant { return instant(h.cfg.Now().Sub(h.start) / tick) }

func ticks(d time.Duration) instant { return instant((d + tick - 1) / tick) }

// Accept makes a session on a new connection. The gateway then passes every client frame to it. If the hello came in the request, the
// gateway passes a hello frame that it made itself.
func (h *Hub) Accept(t Transport, p Peer) *Session {
	o, _ := openings.Get().(*opening)
	o.peer, o.side.opening = p, o
	s := &Session{hub: h, t: t, side: &o.side, alive: uint32(h.instant()), probedFor: never}
	s.timer.Owner = s
	s.mu.Lock()
	s.arm(instant(s.alive) + ticks(helloTimeout))
	s.mu.Unlock()
	return s
}

// Close stops the hub's goroutines. Remaining sessions get no goodbye.
func (h *Hub) Close() error {
	h.closing.Store(true)
	h.stop()
	h.verify.wait()
	h.ask.Wait()
	h.held.Wait()
	h.release.wait()
	h.timers.Wait()
	h.behind.close() // the stopped goroutines may have begun a read
	return nil
}

// refusal returns the goodbye for a client whose verification failed.
func refusal(err error) frame.Goodbye {
	var fe *notification.FieldError
	switch {
	case errors.As(err, &fe):
		why := &frame.Error{Code: frame.CodeBadField, Message: "hello: " + fe.Error(), Field: fe.Field}
		return frame.Goodbye{Reason: "bad_hello", Refusal: true, Error: why}
	case errors.Is(err, access.ErrForbidden):
		return frame.Goodbye{Reason: "forbidden", Refusal: true}
	case errors.Is(err, access.ErrUnknownApp):
		return frame.Goodbye{Reason: "unknown_app", Refusal: true}
	case errors.Is(err, access.ErrUnauthenticated):
		return frame.Goodbye{Reason: "unauthenticated", Refusal: true}
	}
	return unavailable()
}
