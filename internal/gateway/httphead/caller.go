package httphead

import "strings"

// vouched are headers that state the caller's identity or address. Workers trust the gateway, or a proxy that they know, for these headers,
// so callers cannot send them. Servers, proxies and identity providers use these names. Content-Type is a separate field; CGI programs read
// Proxy as the address of a proxy; NATS has a meaning for headers with its prefix.
var vouched = setOf(`authorization cookie content-type godwit-* nats-* proxy proxy-* wl-proxy-* host

	forwarded x-forwarded-* x-forwarded x-forward-* forwarded-for x-original-forwarded-for x-vercel-forwarded-for
	x-real-ip real-ip x-client-* client-ip x-cluster-client-ip x-originating-ip x-remote-ip x-source-ip
	x-proxyuser-ip x-http-client-ip true-client-ip x-true-client-ip remote-* x-remote-*
	cf-connecting-* cf-pseudo-ipv4 cf-ipcountry fastly-client-* fly-client-ip akamai-client-ip x-azure-clientip x-azure-socketip
	x-appengine-* x-envoy-external-address x-envoy-peer-* x-nf-client-connection-ip do-connecting-ip x-sucuri-clientip incap-client-ip
	cloudfront-viewer-*

	auth-user auth-type x-user-email x-auth-user x-auth-request-* x-authenticated-* x-webauth-* x-goog-authenticated-* x-goog-iap-*
	x-amzn-oidc-* x-ms-client-principal* cf-access-* tailscale-user-* x-pomerium-* x-vouch-*
	x-authentik-* x-consumer-* x-credential-* x-anonymous-consumer oidc-* x-userinfo
	x-ssl-* ssl-* x-tls-client-* x-arr-* client-cert client-cert-chain`)

// FromCaller returns the headers of a call that its worker gets. It omits headers of a single connection, and headers for which workers
// trust the gateway. With cookies set it keeps the caller's cookies, except those of this server.
func FromCaller(h map[string][]string, cookies bool) map[string][]string {
	out := make(map[string][]string, len(h)+3) // the gateway adds as many
	options := connectionOptions(h)
	for name, values := range h {
		switch plain := withoutHTTP(name); {
		case name == "Cookie" && cookies:
			if kept := foreignCookies(values); len(kept) > 0 {
				out[name] = kept
			}
		case hopByHop.has(plain), vouched.has(plain), options != nil && options[Fold(plain)]:
		default:
			out[name] = values
		}
	}
	return out
}

// withoutHTTP removes "HTTP_" from a name: CGI's name for X-Forwarded-For is HTTP_X_FORWARDED_FOR, and some programs look for headers with
// such names.
func withoutHTTP(name string) string {
	const prefix = len("http_")
	for len(name) > prefix && name[0]|0x20 == 'h' && Fold(name[:prefix]) == "http-" {
		name = name[prefix:]
	}
	return name
}

// foreignCookies returns the cookies of Cookie headers without this server's own: a worker that got those could act as the caller.
func foreignCookies(values []string) (kept []string) {
	for _, v := range values {
		var left []string
		for pair := range strings.SplitSeq(v, ";") {
			name, _, _ := strings.Cut(pair, "=")
			if pair = strings.TrimSpace(pair); pair != "" && !ownCookie(name) {
				left = append(left, pair)
			}
		}
		if len(left) > 0 {
			kept = append(kept, strings.Join(left, "; "))
		}
	}
	return kept
}

// ownCookie reports whether this server uses cookies of such a name; all its cookies contain "godwit". The check ignores prefixes and case,
// on which browsers and servers do not agree.
func ownCookie(name string) bool { return strings.Contains(strings.ToLower(name), "godwit") }
