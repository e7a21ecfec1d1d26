// Package quicgate serves HTTP/3 and sessions over WebTransport: CONNECT /v1/transport. The listener is QUIC's, so that a client keeps its
// session when its address changes. A connection costs goroutines and some 50 KiB, unlike those of the reactor.
package quicgate

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/time/rate"

	"godwit.dev/godwit/internal/engine/memory"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// Path is that of sessions.
const Path = "/v1/transport"

// Values of the query parameter protocol.
const (
	ProtocolJSON  = "godwit.v1.json"
	ProtocolProto = "godwit.v1.proto"
)

// Config are the parts of a Gateway.
type Config struct {
	Hub     *session.Hub
	Origins gateway.Origins
	// Handler serves HTTP/3 apart from sessions. Nil: nothing but sessions is served.
	Handler http.Handler
	// Admit counts a connection of an address; the caller calls leave when it is closed. Nil: all are admitted.
	Admit func(addr netip.Addr) (leave func(), ok bool)
	Log   *slog.Logger

	Keys     Keys
	ServerID []byte // begins connection IDs, for balancers; empty: they are random
	Most     int    // connections; 0: as many as Memory allows
	Memory   int64  // bytes of all connections and of what waits for them; 0: a quarter of the process's memory
	Queue    int    // most bytes that wait for one session; an empty queue takes one message of any size. 0: 256 KiB

	counts *counts // nil: they are nobody's

	// Times of tests. 0: the defaults.
	patience, answer, linger time.Duration
}

// Gateway serves QUIC.
type Gateway struct {
	cfg     Config
	h3      http3.Server
	clients sync.Pool // *frame.Client
	batches sync.Pool // *[]byte
	counts  *counts

	shaking  atomic.Int64   // handshakes under way
	retries  *rate.Limiter  // of handshakes of addresses that have not proved themselves
	open     atomic.Int64   // connections
	budget   *memory.Budget // of bytes of connections and of what waits for them
	shedding atomic.Bool

	mu       sync.Mutex
	lines    map[*line]struct{} // open connections
	sockets  []*quic.Transport
	stopping bool
	running  sync.WaitGroup
}

// New makes a Gateway. It listens once Serve runs.
func New(cfg Config) *Gateway {
	budget := memory.NewBudget(cfg.Memory)
	cfg.defaults(budget.Limit())
	g := &Gateway{cfg: cfg, budget: budget, counts: cfg.counts, retries: rate.NewLimiter(retryAbove, retryAbove), lines: make(map[*line]struct{})}
	g.clients.New = func() any { return new(frame.Client) }
	g.batches.New = func() any { b := make([]byte, 0, batchBytes); return &b }
	g.h3 = http3.Server{
		Handler: http.HandlerFunc(g.route), EnableDatagrams: true, MaxHeaderBytes: maxHeaderBytes, IdleTimeout: idleTimeout,
		AdditionalSettings: webTransportSettings(), Logger: cfg.Log,
	}
	g.counts.of.Store(g)
	return g
}

func (c *Config) defaults(memory int64) {
	if room := int(memory / lineBytes); c.Most <= 0 || c.Most > room {
		c.Most = max(room, 1)
	}
	if c.counts == nil {
		c.counts = newCounts()
	}
	if c.Queue <= 0 {
		c.Queue = gateway.QueueBytes
	}
	for into, d := range map[*time.Duration]time.Duration{&c.patience: patience, &c.answer: answerAfter, &c.linger: lingerFor} {
		if *into == 0 {
			*into = d
		}
	}
}

// Limits of connections, as those of the HTTP listener.
const (
	patience      = 10 * time.Second // from the session's begin to the client's stream, and for the headers of a request
	requestTime   = 60 * time.Second // for a request, and for its answer; feeds remove the limit
	idleTimeout   = 30 * time.Second // of a connection without session and request
	silentTimeout = 90 * time.Second // without any packet of the peer
	keepAlive     = 40 * time.Second // after which a silent peer is asked for a packet
	answerAfter   = 5 * time.Second  // for the acknowledgement of a sign of life
	lingerFor     = time.Second      // for the client's end of the stream after the server's, and for the last answer of a connection when the server stops
	flushFor      = 5 * time.Second  // for the last frames of a session
	quitAfter     = 2 * time.Second  // for a client to close the connection whose session has ended

	maxHeaderBytes = 16 << 10
	lineBytes      = 60 << 10 // what a connection costs

	mostShaking = 1024 // handshakes under way: each costs the CPU time of a signature, and what a connection costs
	retryAbove  = 20   // handshakes a second of addresses that have not proved themselves; above, they get a retry token first

	packetBytes  = 1200     // of UDP's payload, RFC 9000, section 14
	streamWindow = 64 << 10 // of received bytes, at first; it grows while the server reads quickly
	mostWindow   = 2 << 20
	mostStreams  = 100 // requests of one connection at a time
	mostUni      = 16  // HTTP/3 has three, and browsers send some without meaning
)

// config is QUIC's.
func (g *Gateway) config() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: g.cfg.patience / 2, MaxIdleTimeout: silentTimeout, KeepAlivePeriod: keepAlive,
		InitialStreamReceiveWindow: streamWindow, MaxStreamReceiveWindow: mostWindow, InitialConnectionReceiveWindow: streamWindow + streamWindow/2, MaxConnectionReceiveWindow: mostWindow,
		MaxIncomingStreams: mostStreams, MaxIncomingUniStreams: mostUni, EnableDatagrams: true, EnableStreamResetPartialDelivery: true,
		Allow0RTT: false, // early data can be played again by strangers
		// Each network must carry packets of this size. Larger ones get lost in tunnels, already in the handshake, and quic-go does not notice
		// when a path becomes narrow.
		InitialPacketSize: packetBytes, DisablePathMTUDiscovery: true,
	}
}

// transport makes QUIC's side of the socket.
func (g *Gateway) transport(pc net.PacketConn) *quic.Transport {
	tr := &quic.Transport{
		Conn: pc, ConnectionIDLength: idBytes, StatelessResetKey: &g.cfg.Keys.Reset, TokenGeneratorKey: &g.cfg.Keys.Token,
		VerifySourceAddress: g.suspect, ConnContext: g.shake,
	}
	if len(g.cfg.ServerID) > 0 {
		tr.ConnectionIDLength, tr.ConnectionIDGenerator = 0, serverIDs(g.cfg.ServerID)
	}
	return tr
}

// tlsConfig is the listener's, for HTTP/3 alone.
func tlsConfig(conf *tls.Config) *tls.Config { return http3.ConfigureTLSConfig(conf) }
