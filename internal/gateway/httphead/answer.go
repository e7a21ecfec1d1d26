package httphead

import (
	"net/http"
	"strings"
)

// Place is the kind of origin on which a worker's answer is served.
type Place uint8

// Places.
const (
	OwnOrigin Place = iota // an origin for the gateway only, which has nothing else that an answer could affect
	Shared                 // the gateway's path on the origin that also serves the web console and the API
	API                    // the API, where programs ask
)

// GatewayPath is the path of the gateway on its origin.
const GatewayPath = "/gw/"

// wide are headers whose effect outlives an answer or goes beyond it: on the whole origin, the host, its cookies, or the proxy in front.
// Workers of several apps share an origin, so no answer may have these headers. docs/guides/gateway.md lists them.
var wide = setOf(`clear-site-data service-worker-allowed strict-transport-security public-key-pins public-key-pins-report-only
	expect-ct expect-staple alt-svc nel report-to accept-ch accept-ch-lifetime critical-ch origin-agent-cluster use-as-dictionary
	set-login set-cookie2 secure-session-* sec-session-* shared-storage-write attribution-reporting-*

	x-accel-* x-sendfile x-sendfile2 x-lighttpd-send-* x-reproxy-* x-litespeed-location`)

// policy isolates an answer that a browser shows: the page gets an origin of its own and runs no script.
const policy = "sandbox"

// Protect sets the headers that every answer on an origin of this kind has, whoever made the answer.
func Protect(h http.Header, in Place) {
	if in != OwnOrigin {
		h.Add("Content-Security-Policy", policy)
	}
}

// FromWorker adds a worker's headers to dst, the headers of the answer. It omits headers of a single connection, headers whose effect goes
// beyond the answer, and the content type, which is a separate field. It does not replace headers that Protect has set.
func FromWorker(dst http.Header, from map[string][]string, in Place) {
	options := connectionOptions(from)
	for name, values := range from {
		switch folded := Fold(name); {
		case hopByHop.has(name), wide.has(name), options[folded], folded == "content-type":
		case folded == "set-cookie":
			setCookies(dst, values, in)
		case folded == "refresh" && in != OwnOrigin:
		case folded == "content-security-policy" && in != OwnOrigin: // browsers enforce all policies together: a further one only restricts more
			dst["Content-Security-Policy"] = append(dst["Content-Security-Policy"], values...)
		case folded == "x-content-type-options" && in == API:
		default:
			dst[http.CanonicalHeaderKey(name)] = values
		}
	}
}

// Displayable reports whether an answer of this type may be passed on. It refuses multipart/x-mixed-replace: its parts have headers of
// their own, which browsers have obeyed, and an answer that is sent as a whole has no use for it.
func Displayable(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return !strings.EqualFold(strings.TrimSpace(kind), "multipart/x-mixed-replace")
}

// HasBody reports whether an answer of a final status may have a body (RFC 9110, sections 15.3.5, 15.3.6 and 15.4.5).
func HasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusResetContent && status != http.StatusNotModified
}

// setCookies adds the cookies that a worker may set: none with this server's names, and on a shared origin only cookies for the gateway's
// path. Back ends that make requests over the API get these headers unchanged: no browser stores them, since each call carries a key.
func setCookies(dst http.Header, values []string, in Place) {
	for _, v := range values {
		pair, attributes, _ := strings.Cut(v, ";")
		name, _, named := strings.Cut(pair, "=")
		name = strings.Trim(name, " \t")
		if !named || !isToken(name) || ownCookie(name) { // browsers send a cookie without a name as if its value were a name
			continue
		}
		if in == Shared {
			v = pair + confined(attributes)
		}
		dst["Set-Cookie"] = append(dst["Set-Cookie"], v)
	}
}

// confined returns the attributes of a cookie, restricted to this host and the gateway's path.
func confined(attributes string) string {
	var b strings.Builder
	for attribute := range strings.SplitSeq(attributes, ";") {
		name, value, _ := strings.Cut(attribute, "=")
		value = strings.Trim(value, " \t")
		switch name = strings.ToLower(strings.Trim(name, " \t")); {
		case name == "domain", name == "":
		case name == "path" && !strings.HasPrefix(value, GatewayPath):
			b.WriteString("; Path=" + GatewayPath)
		default:
			b.WriteString(";" + attribute)
		}
	}
	return b.String()
}

func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
