package access

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/access/webhost"
	"godwit.dev/godwit/internal/notify/notification"
)

// Origin reports whether a browser page of this origin may connect to an app. An app's list must contain the exact origin; an app without a
// list accepts pages of this server: of its public URL, or of the request's host. If app is empty, because it is known only after the
// hello, the result is true if any app accepts the origin: Client checks again when the app is known.
func (r *Registry) Origin(app, origin, host string) bool {
	snap := r.snap.Load()
	if a, ok := snap.apps[snap.defaultApp(app)]; ok {
		return r.accepts(a, origin, host)
	}
	if app != "" {
		return false
	}
	for _, a := range snap.apps {
		if r.accepts(a, origin, host) {
			return true
		}
	}
	return false
}

// Anonymous returns the app, which is the only one if named is empty, and reports whether visitors of a page of this origin may register
// there for push messages without a token. A development server allows pages of this machine.
func (r *Registry) Anonymous(app, origin string) (name string, allowed bool) {
	snap := r.snap.Load()
	a, ok := snap.apps[snap.defaultApp(app)]
	if !ok {
		return "", false
	}
	norm, err := normalOrigin(origin)
	if err != nil {
		return a.Name, false
	}
	if r.cfg.Dev && a.Name == DevApp && local(norm) {
		return a.Name, true
	}
	return a.Name, slices.Contains(a.AnonymousOrigins, norm)
}

// local reports whether an origin is on this machine.
func local(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// OwnOrigin returns the origin, as browsers send it, of pages below a URL; empty if the URL is.
func OwnOrigin(publicURL string) string {
	u, err := url.Parse(publicURL)
	if err != nil {
		return ""
	}
	own, err := normalOrigin(u.Scheme + "://" + u.Host)
	if err != nil {
		return ""
	}
	return own
}

// accepts compares with the public URL before the host: a proxy may set Host to its own name for the server.
func (r *Registry) accepts(app *App, origin, host string) bool {
	norm, err := normalOrigin(origin)
	if err != nil {
		return false // also for "null", which sandboxed and local pages send
	}
	if len(app.Origins) > 0 {
		return slices.Contains(app.Origins, norm)
	}
	if r.cfg.Origin != "" && norm == r.cfg.Origin {
		return true
	}
	scheme, site, _ := strings.Cut(norm, "://")
	return host != "" && site == webhost.Authority(scheme, host)
}

// normalOrigin converts an origin to the form that browsers send, with nothing after the host and port.
func normalOrigin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Hostname() == "" || u.User != nil || strings.Contains(u.Host, "*") ||
		u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return "", notification.BadField("origin", "%.100q is not an origin like https://example.org", s)
	}
	scheme := strings.ToLower(u.Scheme)
	return scheme + "://" + webhost.Authority(scheme, u.Host), nil
}
