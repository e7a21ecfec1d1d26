// Package wsgate serves sessions over WebSocket: GET /v1/connect. net/http and gobwas/ws do the handshake; then the
// connection moves to the reactor.
package wsgate

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/ws"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/problem"
)

// Subprotocols. A client that offers none uses JSON.
const (
	ProtocolJSON  = "godwit.v1.json"
	ProtocolProto = "godwit.v1.proto"
)

const (
	// maxMessage is the most bytes of a client's message: an answer of 1 MiB takes 1.4 MiB as base64.
	maxMessage = 1536 << 10
	// handshakeTimeout limits how long the answer to a handshake may take to send.
	handshakeTimeout = 10 * time.Second
)

// Config are the parts of a Gateway.
type Config struct {
	Hub     *session.Hub
	Origins gateway.Origins
	Reactor *reactor.Reactor
	Log     *slog.Logger
}

// Gateway serves GET /v1/connect.
type Gateway struct {
	cfg     Config
	clients sync.Pool // *frame.Client
	heads   sync.Pool // *[]byte
}

// New makes a Gateway.
func New(cfg Config) *Gateway {
	g := &Gateway{cfg: cfg}
	g.clients.New = func() any { return new(frame.Client) }
	g.heads.New = func() any { b := make([]byte, 0, 256); return &b }
	return g
}

// ServeHTTP upgrades a request to a WebSocket. It answers a bad request with a problem document before the handshake; the client's identity
// is verified after its hello.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := g.check(w, r); err != nil {
		gateway.Fail(w, err)
		return
	}
	peer := gateway.Peer(r)
	up := ws.HTTPUpgrader{Timeout: handshakeTimeout, Protocol: known}
	nc, rw, shake, err := up.Upgrade(r, w)
	if err != nil {
		g.cfg.Log.DebugContext(r.Context(), "websocket handshake failed", "error", err)
		if nc != nil {
			_ = nc.Close() // the client has received its answer or is gone
		}
		return
	}
	c := &conn{gate: g, text: shake.Protocol != ProtocolProto}
	c.parser.MaxMessage = maxMessage
	buffered, _ := rw.Reader.Peek(rw.Reader.Buffered())
	err = g.cfg.Reactor.Adopt(nc, buffered, func(rc *reactor.Conn) reactor.Handler {
		c.out = rc
		c.sess = g.cfg.Hub.Accept(c, peer)
		return c
	})
	if err != nil {
		g.cfg.Log.DebugContext(r.Context(), "connection could not be taken over", "error", err)
	}
}

// check refuses requests that cannot become a session.
func (g *Gateway) check(w http.ResponseWriter, r *http.Request) error {
	h := r.Header
	switch origin := h.Get("Origin"); {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		return problem.MethodNotAllowed.With("this path takes GET")
	case r.ProtoMajor != 1:
		return problem.HTTPVersion.With("WebSocket needs HTTP/1.1")
	case !hasToken(h["Upgrade"], "websocket"), !hasToken(h["Connection"], "upgrade"):
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		if h.Get("Sec-Websocket-Key") != "" {
			return problem.UpgradeRequired.With(proxyDrops)
		}
		return problem.UpgradeRequired.With("this path speaks WebSocket; GET /v1/stream serves events over plain HTTP")
	case !r.ProtoAtLeast(1, 1):
		return problem.HTTPVersion.With("WebSocket needs HTTP/1.1; nginx speaks 1.0 to its upstreams without proxy_http_version 1.1")
	case h.Get("Sec-Websocket-Version") != "13":
		w.Header().Set("Sec-WebSocket-Version", "13")
		return problem.UpgradeRequired.With("Sec-WebSocket-Version must be 13")
	case origin != "" && !g.cfg.Origins.Origin(r.URL.Query().Get("app"), origin, r.Host):
		return gateway.BadOrigin()
	}
	if offered := h["Sec-Websocket-Protocol"]; len(offered) > 0 && !hasToken(offered, ProtocolJSON) && !hasToken(offered, ProtocolProto) {
		return problem.Subprotocol.With("offer " + ProtocolJSON + " or " + ProtocolProto + ", or none")
	}
	claim := gateway.Peer(r).Claim
	return gateway.Check(&frame.Hello{App: claim.App, Token: claim.Token, Recipient: claim.Recipient, Group: claim.Group, Device: claim.Device})
}

// proxyDrops explains why a client's WebSocket request fails: the client sent these headers, and they did not arrive.
const proxyDrops = "a proxy on the way does not pass the headers Upgrade and Connection; for nginx: proxy_http_version 1.1; " +
	"proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade"

func known(protocol string) bool { return protocol == ProtocolJSON || protocol == ProtocolProto }

// hasToken searches for a token in a header of comma-separated lists.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}
