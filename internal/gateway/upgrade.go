package gateway

import (
	"net/http"
	"strings"

	"godwit.dev/godwit/internal/server/problem"
)

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
