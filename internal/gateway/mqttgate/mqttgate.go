// Package mqttgate serves MQTT 3.1.1 and 5: a client of MQTT is a session like any other, with its mailbox as the topic "inbox", where PUBACK
// acknowledges; objects are retained messages, and other topics are those of the app. Package wire parses and encodes packets on the event
// loops. DESIGN.md gives the reasons.
package mqttgate

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
)

// Limits of connections. docs/guides/mqtt.md has those that clients notice.
const (
	maxConnect       = 128 << 10        // bytes of a CONNECT packet: a token has up to 16 KB, a will up to 64 KB
	maxPacket        = 1088 << 10       // bytes of any other packet: an answer to a request has up to 1 MiB
	gatherFrom       = 32 << 10         // bytes from which the beginning of a packet is kept here until the rest has come
	maxInFlight      = 64               // QoS 1 and 2 packets unacknowledged in each direction
	maxUnreleased    = 1024             // QoS 2 packets of a client that it has not released; with MQTT 5 each connection adds maxInFlight at most
	maxForwarded     = 16 << 10         // bytes of the properties that travel with a message
	maxWaiting       = 256              // publishes of a connection that wait for the disk or the bus
	maxWaitingBytes  = 512 << 10        // and their bytes
	maxBatch         = 512              // messages that a lane carries out at once
	maxAliases       = 16               // topic aliases of a client
	maxSubscriptions = 512              // filters of a session that outlasts its connection
	maxFilterBytes   = 64 << 10         // and their bytes
	maxAway          = 100_000          // sessions that are in memory for clients who are away
	maxAsking        = 1024             // requests of clients under way
	maxFigures       = 8                // filters of figures that a client follows
	maxExpirySeconds = 30 * 24 * 3600   // session expiry
	maxSilence       = 24 * time.Hour   // heartbeat of clients without a keep-alive
	soon             = time.Millisecond // until Tick, which then runs on the connection's loop
	fairly           = 10 * soon        // for how long a place in the window is left to the mailbox
	sweepEvery       = 10 * time.Second // how often sessions whose time is over are dropped
	keptHead         = 4 << 10          // most bytes of a buffer that is reused
	keptJobs         = 4 << 10          // most jobs for which a lane keeps memory
)

// Access verifies clients: *access.Registry.
type Access interface {
	gateway.Origins
	Known(c access.Claim) (access.Client, error)
	Revision() uint64
	App(name string) (access.App, error)
}

// Waiting is what waits in mailboxes: *mailbox.Mailbox.
type Waiting interface {
	Pending(ctx context.Context, qs []mailbox.PendingQuery) ([]mailbox.PendingResult, error)
	Recall(ctx context.Context, app, id, to string) (n int, err error)
}

// Config are the parts and settings of a Gateway.
type Config struct {
	Hub       *session.Hub
	Reactor   *reactor.Reactor
	Access    Access
	Publisher *delivery.Service
	Objects   interface {
		Put(ctx context.Context, app string, k object.Key, p *object.Put) (st object.State, changed bool, err error)
	}
	Topics interface {
		Publish(ctx context.Context, app string, m *pubsub.Message) error
	}
	Requests interface {
		Ask(ctx context.Context, app string, r *request.Request) (*request.Answer, error)
	}
	// ReadDraft reads the body of a publish.
	ReadDraft func(body []byte) (*notification.Draft, error)
	// PublishLimit takes n messages from a key's budget. wait > 0: they are refused. Nil: no limit.
	PublishLimit func(key string, n int) (wait time.Duration)
	Now          func() time.Time   // nil: the system's clock
	Filters      *filterdb.Store    // of topics that devices follow while they are away; nil: none outlasts its connection
	Sessions     *filterdb.Sessions // on disk; nil: they are in memory alone
	Waiting      Waiting            // what waits for devices; nil: nothing is moved to other members of a queue
	QoS2         bool               // clients of MQTT 5 may publish at QoS 2, as those of 3.1.1 may in any case, and all get messages at it
	Version      string
	Several      bool   // there are other nodes, to which clients of this one can go
	Elsewhere    string // addresses where they can go, as a server reference of MQTT 5; empty: they know
	Log          *slog.Logger
}

// Gateway serves clients of MQTT.
type Gateway struct {
	cfg    Config
	inputs sync.Pool // *input
	heads  sync.Pool // *[]byte
	kept   keptSessions
	counts counts
	asking atomic.Int64
	begun  time.Time

	watchers watchers
	extendAt time.Time // when the stored sessions of connected clients are extended; of the sweeper

	mu      sync.Mutex
	lanes   map[string]*lane // by app
	over    bool             // nothing starts any more
	running sync.WaitGroup
	ctx     context.Context // ends requests and the sweeper, which belong to the gateway
	stop    context.CancelFunc
}

// New makes a Gateway. Close must be called.
func New(cfg Config) *Gateway {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	g := &Gateway{cfg: cfg, lanes: make(map[string]*lane)}
	g.begun, g.watchers.g = cfg.Now(), g
	g.kept = keptSessions{g: g, all: make(map[sessionName]*keptSession), most: maxAway}
	g.inputs.New = func() any { return new(input) }
	g.heads.New = func() any { b := make([]byte, 0, 256); return &b }
	g.ctx, g.stop = context.WithCancel(context.Background())
	if cfg.Filters != nil && cfg.Waiting != nil {
		cfg.Filters.MoveBy(g.move)
	}
	g.running.Go(g.keepSwept)
	cfg.Hub.AlsoDisconnect(func(app, recipient, reason string) int {
		if reason != frame.Erased {
			return 0
		}
		return g.kept.erase(app, recipient)
	})
	return g
}

// Serve accepts connections until ctx ends.
func (g *Gateway) Serve(ctx context.Context, ln net.Listener, conf *tls.Config, lim reactor.Limits) error {
	return g.cfg.Reactor.Serve(ctx, ln, conf, lim, func(rc *reactor.Conn) (reactor.Handler, error) { return g.open(rc), nil }) // says what it served
}

// open makes the handler of a connection.
func (g *Gateway) open(rc *reactor.Conn) *conn {
	c := &conn{gate: g, out: rc, last: anyPacketID()}
	c.sess = g.cfg.Hub.Accept(c, session.Peer{
		Claim: access.Claim{CertURI: access.CertURI(rc.TLS())}, Addr: rc.RemoteAddr().Addr().Unmap(),
	})
	return c
}

// anyPacketID is where a connection's packet ids begin. A client may hold packets at QoS 2 of before a crash, and would take the same ids for those.
func anyPacketID() uint16 { return uint16(mathrand.Uint32()) } // any will do

// certified reports whether a client's certificate says who it is.
func certified(c *reactor.Conn) bool { return access.CertURI(c.TLS()) != "" }

// Close ends what the gateway does in the background. All sessions must have ended before.
func (g *Gateway) Close() error {
	g.stop()
	g.kept.close()
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.running.Wait()
	return nil
}

// keepSwept drops sessions whose time is over.
func (g *Gateway) keepSwept() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
			g.kept.sweep()
			g.extendKept()
			g.sweepStored()
		}
	}
}

// newClientID makes the id of a client that gives none.
func newClientID() string { return "auto-" + strings.ToLower(rand.Text()) }
