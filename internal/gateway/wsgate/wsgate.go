// Package wsgate serves sessions over WebSocket: GET /v1/connect. The connections are on the reactor.
package wsgate

import (
	"log/slog"
	"net/http"
	"sync"

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

// maxMessage is the most bytes of a client's message: an answer of 1 MiB takes 1.4 MiB as base64.
const maxMessage = 1536 << 10

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
	gateway.Upgrade(w, r, g.cfg.Reactor, g.cfg.Log, known, func(rc *reactor.Conn, protocol string) reactor.Handler {
		c := &conn{gate: g, out: rc, text: protocol != ProtocolProto}
		c.parser.MaxMessage = maxMessage
		c.sess = g.cfg.Hub.Accept(c, peer)
		return c
	})
}

// check refuses requests that cannot become a session.
func (g *Gateway) check(w http.ResponseWriter, r *http.Request) error {
	if err := gateway.CheckUpgrade(w, r, g.cfg.Origins); err != nil {
		return err
	}
	if offered := r.Header["Sec-Websocket-Protocol"]; len(offered) > 0 && !gateway.HasToken(offered, ProtocolJSON) && !gateway.HasToken(offered, ProtocolProto) {
		return problem.Subprotocol.With("offer " + ProtocolJSON + " or " + ProtocolProto + ", or none")
	}
	claim := gateway.Peer(r).Claim
	return gateway.Check(&frame.Hello{App: claim.App, Token: claim.Token, Recipient: claim.Recipient, Group: claim.Group, Device: claim.Device})
}

func known(protocol string) bool { return protocol == ProtocolJSON || protocol == ProtocolProto }
