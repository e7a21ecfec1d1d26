package httphead

import (
	"net/http"
	"strings"
)

// Place is where a worker's answer is served.
type Place uint8

// Places.
const (
	OwnOrigin Place = iota // of the gateway alone: there is nothing else that an answer could reach
	Shared                 // the gateway's path on the origin of the web console and the API
	API                    // the API, where programs ask
)

// GatewayPath is where the gateway is on its origin.
const GatewayPath = "/gw/"

// wide are headers that outlive an answer, or act beyond it: on the whole origin, the host, its cookies, or the proxy in front. Workers of
// several apps share an origin, so no answer may have them. docs/guides/gateway.md lists them.
var wide = setOf(`clear-site-data service-worker-allowed strict-transport-security public-key-pins public-key-pins-report-only
	expect-ct expect-staple alt-svc nel report-to accept-ch accept-ch-lifetime critical-ch origin-agent-cluster use-as-dictionary
	set-login set-cookie2 secure-session-* sec-session-* shared-storage-write attribution-reporting-*

	x-accel-* x-sendfile x-sendfile2 x-lighttpd-send-* x-reproxy-* x-litespeed-location`)

// policy takes all power from an answer that a browser shows: it gets an origin of its own, and runs no script.
const policy = "sandbox"

// Protect sets the headers that every answer of a place has, whoever made the answer.
func Protect(h http.Header, in Place) {
	if in != OwnOrigin {
		h.Add("Content-Security-Policy", policy)
	}
}

// FromWorker adds a worker's headers to those of the answer that carries them. It leaves out headers of one connection, those that act
// beyond the answer, and the content type, which is a field of its own. Headers that Protect has set stay.
func FromWorker(dst http.Header, from map[string][]string, in Place) {
	options := connectionOptions(from)
	for name, values := range from {
		switch folded := Fold(name); {
		case hopByHop.has(name), wide.has(name), options[folded], folded == "content-type":
		case folded == "set-cookie":
			setCookies(dst, values, in)
		case folded == "refresh" && in != OwnOrigin:
		case folded == "content-security-policy" && in != OwnOrigin: // several policies hold together: a further one only restricts more
			dst["Content-Security-Policy"] = append(dst["Content-Security-Policy"], values...)
		case folded == "x-content-type-options" && in == API:
		default:
			dst[http.CanonicalHeaderKey(name)] = values
		}
	}
}

// Displayable reports whether an answer's type may be passed on. The parts of multipart/x-mixed-replace bring headers of their own, which browsers have
// obeyed; an answer that comes whole has no use for it.
func Displayable(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return !strings.EqualFold(strings.TrimSpace(kind), "multipart/x-mixed-replace")
}

// HasBody reports whether an answer of a final status may have a body (RFC 9110, sections 15.3.5, 15.3.6 and 15.4.5).
func HasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusResetContent && status != http.StatusNotModified
}

// setCookies adds the cookies that a worker may set: none of this server's names, and on a shared origin only for the gateway's path.
// Back ends that ask over the API get the others as they are: no browser keeps them, since each call carries a key.
func setCookies(dst http.Header, values []string, in Place) {
	for _, v := range values {
		pair, attributes, _ := strings.Cut(v, ";")
		name, _, named := strings.Cut(pair, "=")
		name = strings.Trim(name, " \t")
		if !named || !isToken(name) || ownCookie(name) { // browsers send one without a name as if its value were a name
			continue
		}
		if in == Shared {
			v = pair + confined(attributes)
		}
		dst["Set-Cookie"] = append(dst["Set-Cookie"], v)
	}
}

// confined are the attributes of a cookie that no other host gets, and no path beside the gateway's.
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
