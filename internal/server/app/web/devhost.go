package web

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/server/problem"
)

// localHosts refuses requests for names that are not this machine's own. A development server asks for no key that a page
// on the web would not know, and only trusts that none can reach it; but a page may have its own name resolve to
// 127.0.0.1 once it is loaded (DNS rebinding), and then it is of the same origin as the server. The gateway's own host is no such name:
// nothing but the gateway is served there. Nor is the host of publicURL, which the operator has named.
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

// localHost reports whether a host cannot come from DNS: an address or localhost. HTTP/1.0 names none at all.
func localHost(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	if _, err := netip.ParseAddr(name); err == nil || host == "" {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
