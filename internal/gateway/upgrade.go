package gateway

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/server/problem"
)

// handshakeTimeout limits how long the answer to a WebSocket handshake may take to send.
const handshakeTimeout = 10 * time.Second

// Upgrade turns a request into a WebSocket: net/http and gobwas/ws do the handshake, then the connection moves to the reactor. known reports
// whether the gateway has a subprotocol; open makes the handler of the connection.
func Upgrade(w http.ResponseWriter, r *http.Request, to *reactor.Reactor, log *slog.Logger, known func(protocol string) bool, open func(c *reactor.Conn, protocol string) reactor.Handler) {
	up := ws.HTTPUpgrader{Timeout: handshakeTimeout, Protocol: known}
	nc, rw, shake, err := up.Upgrade(r, w)
	if err != nil {
		log.DebugContext(r.Context(), "websocket handshake failed", "error", err)
		if nc != nil {
			_ = nc.Close() // the client has received its answer or is gone
		}
		return
	}
	buffered, _ := rw.Reader.Peek(rw.Reader.Buffered())
	if err := to.Adopt(nc, buffered, func(c *reactor.Conn) reactor.Handler { return open(c, shake.Protocol) }); err != nil {
		log.DebugContext(r.Context(), "connection could not be taken over", "error", err)
	}
}

// CheckUpgrade refuses a request that cannot become a WebSocket, or that comes from a page of a foreign origin.
func CheckUpgrade(w http.ResponseWriter, r *http.Request, o Origins) error {
	h := r.Header
	switch origin := h.Get("Origin"); {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		return problem.MethodNotAllowed.With("this path takes GET")
	case r.ProtoMajor != 1:
		return problem.HTTPVersion.With("WebSocket needs HTTP/1.1")
	case !HasToken(h["Upgrade"], "websocket"), !HasToken(h["Connection"], "upgrade"):
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
	case origin != "" && !o.Origin(r.URL.Query().Get("app"), origin, r.Host):
		return BadOrigin()
	}
	return nil
}

// proxyDrops explains why a client's WebSocket request fails: the client sent these headers, and they did not arrive.
const proxyDrops = "a proxy on the way does not pass the headers Upgrade and Connection; for nginx: proxy_http_version 1.1; " +
	"proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade"

// HasToken searches for a token in a header of comma-separated lists.
func HasToken(values []string, token string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}
