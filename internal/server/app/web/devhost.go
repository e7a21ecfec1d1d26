package web

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/server/problem"
)

// localHosts refuses requests for names that are not this machine's own. A development server's key is public, so it relies on being
// unreachable from outside. But a page on the web can let its own name resolve to 127.0.0.1 after it was loaded (DNS rebinding), and then
// has the same origin as the server. The gateway's own host is accepted, since only the gateway is served there; so is the host of
// publicURL, which the operator has set.
func localHosts(next http.Handler, gw gatewayOrigin, publicURL string) http.Handler {
	public := ""
	if u, err := url.Parse(publicURL); err == nil {
		public = nameOf(u.Host)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named := public != "" && nameOf(r.Host) == public
		if !named && !localHost(r.Host) && !gw.named(r.Host) {
			gateway.Fail(w, problem.Forbidden.With("a development server answers to localhost and addresses only; with --dev-any-address to any name"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localHost reports whether a host cannot come from DNS: an address, localhost, or none at all, as in HTTP/1.0.
func localHost(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	if _, err := netip.ParseAddr(name); err == nil || host == "" {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
