package web

import (
	"net/http"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/access/webhost"
	"godwit.dev/godwit/internal/gateway/httphead"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/httpapi"
)

// gatewayOrigin recognises requests for the gateway's own origin.
type gatewayOrigin struct {
	own      bool // the gateway has its own origin: a host, or a listener
	listener bool // the gateway has its own listener, whose connections are marked
	scheme   string
	host     string // as browsers write it; with its port if there is a listener
}

// newGatewayOrigin reads the gateway's origin from the settings.
func newGatewayOrigin(cfg *config.Config) gatewayOrigin {
	o := gatewayOrigin{listener: cfg.GatewayAddr != config.Off}
	o.own = o.listener || cfg.GatewayURL != ""
	if u, err := url.Parse(cfg.GatewayURL); err == nil { // was checked with the settings
		o.scheme, o.host = u.Scheme, o.written(u.Scheme, u.Host)
	}
	return o
}

type onGatewayListener struct{}

// parts returns the parts of the API that are served to a request.
func (o gatewayOrigin) parts(r *http.Request) httpapi.Parts {
	switch {
	case !o.own:
		return httpapi.Parts{Gateway: true, Rest: true}
	case r.Context().Value(onGatewayListener{}) != nil:
		return httpapi.Parts{Gateway: true, Stays: true}
	case !o.named(r.Host):
		return httpapi.Parts{Rest: true}
	}
	return httpapi.Parts{Gateway: !o.listener}
}

// named reports whether a Host header names the gateway's host.
func (o gatewayOrigin) named(host string) bool {
	return o.host != "" && o.written(o.scheme, host) == o.host
}

// written returns a host in the form that named compares. Without a listener, ports are ignored: proxies may omit them, and cookies do not
// distinguish them.
func (o gatewayOrigin) written(scheme, hostport string) string {
	if !o.listener {
		return nameOf(hostport)
	}
	return webhost.Authority(scheme, hostport)
}

// nameOf returns the name in a Host header as browsers write it, without a dot at its end.
func nameOf(hostport string) string {
	return strings.TrimSuffix(webhost.Host((&url.URL{Host: hostport}).Hostname()), ".")
}

// place returns the origin that browsers see for a worker's answer.
func (o gatewayOrigin) place() httphead.Place {
	if o.own {
		return httphead.OwnOrigin
	}
	return httphead.Shared
}
