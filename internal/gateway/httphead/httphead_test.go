package httphead

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestSpellingsOfAnIdentityHeaderDoNotReachWorkers(t *testing.T) {
	for _, name := range []string{
		"Authorization", "Cookie", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "X-Client-IP", "CF-Connecting-IP", "True-Client-IP",
		"X-Remote-User", "X-Auth-Request-Email", "X-SSL-Client-DN", "Godwit-Key", "Godwit-Recipient", "Godwit-Client-Addr", "Godwit-Anything", "Nats-Msg-Id",
		"Proxy-Client-IP", "WL-Proxy-Client-IP", "X-Forward-For", "X-Client-Host", "Remote-Groups", "X-Authentik-Username", "X-Consumer-Username", "OIDC-Claim-Sub", "X-ARR-ClientCert", "Auth-User",
		"SSL-Cert", "Proxy", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection",
	} {
		for _, spelt := range []string{
			name, strings.ToLower(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.ToLower(strings.ReplaceAll(name, "-", "_")),
			strings.ReplaceAll(name, "-", "."), strings.ReplaceAll(name, "-", "~"), strings.ReplaceAll(name, "-", "+"), strings.Replace(name, "-", "_", 1),
		} {
			if got := FromCaller(map[string][]string{spelt: {"x"}}, false); len(got) > 0 {
				t.Errorf("a worker gets %s", spelt)
			}
		}
	}
}

// Programs also read HTTP_X_FORWARDED_FOR as a header: it is CGI's name for X-Forwarded-For.
func TestCGINamesOfAnIdentityHeaderDoNotReachWorkers(t *testing.T) {
	for _, name := range []string{
		"HTTP_X_FORWARDED_FOR", "HTTP_CLIENT_IP", "HTTP_PROXY", "Http-Proxy", "HTTP_AUTHORIZATION", "Http-Cookie", "HTTP_GODWIT_RECIPIENT", "http.godwit.key", "HTTP_HTTP_GODWIT_KEY",
		"HTTP_CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING", "HTTP_VIA_X_LOST",
	} {
		got := FromCaller(map[string][]string{name: {"x"}, "Connection": {"via-x-lost"}}, true)
		if len(got) > 0 {
			t.Errorf("a worker gets %s", name)
		}
	}
}

func TestOtherHeadersReachWorkers(t *testing.T) {
	h := http.Header{"Accept": {"a", "b"}, "Traceparent": {"00"}, "Idempotency-Key": {"x"}, "X_Custom": {"y"}, "X-Request-Id": {"z"}, "Godwitness": {"w"}, "Http-Referer": {"v"}, "Https": {"on"}, "Http": {"u"}, "Origin": {"o"}}
	if got := FromCaller(h, false); !maps.EqualFunc(h, got, slices.Equal) {
		t.Errorf("a worker gets %v of %v", got, h)
	}
	h["Connection"] = []string{"close, x_custom", "ORIGIN"}
	got := FromCaller(h, false)
	if _, ok := got["X_Custom"]; ok || got["Origin"] != nil || len(got) != 8 {
		t.Errorf("with options of the connection a worker gets %v", got)
	}
}

func TestWorkersDoNotGetTheServersCookies(t *testing.T) {
	h := http.Header{"Cookie": {"theme=dark; godwit=secret;__Host-godwit=secret; GODWIT-way=secret", "a=1", " godwit = secret"}}
	if got := FromCaller(h, true)["Cookie"]; !slices.Equal(got, []string{"theme=dark", "a=1"}) {
		t.Errorf("a worker gets the cookies %q", got)
	}
	if got := FromCaller(http.Header{"Cookie": {"godwit=secret"}}, true); len(got) > 0 {
		t.Errorf("a worker gets %v", got)
	}
}

func TestAWorkersHeadersActOnItsAnswerAlone(t *testing.T) {
	from := http.Header{
		"Clear-Site-Data": {`"*"`}, "Clear_site_data": {`"*"`}, "Service-Worker-Allowed": {"/"}, "Strict-Transport-Security": {"max-age=1"}, "Public-Key-Pins": {"x"}, "Alt-Svc": {"h3"},
		"Nel": {"{}"}, "Report-To": {"{}"}, "Accept-Ch": {"DPR"}, "Origin-Agent-Cluster": {"?0"}, "Set-Login": {"logged-in"}, "X-Accel-Redirect": {"/etc/passwd"}, "X-Sendfile": {"/etc/passwd"},
		"Connection": {"X-Hop"}, "X-Hop": {"x"}, "Transfer-Encoding": {"chunked"}, "Content-Length": {"7"}, "Trailer": {"X"}, "Upgrade": {"h2c"}, "Content-Type": {"x"},
		"X-Own": {"kept"}, "Location": {"/elsewhere"}, "Etag": {`"1"`}, "Cache-Control": {"max-age=5"},
	}
	for place, want := range map[Place][]string{
		OwnOrigin: {"Cache-Control", "Etag", "Location", "X-Own"},
		Shared:    {"Cache-Control", "Content-Security-Policy", "Etag", "Location", "X-Own"},
		API:       {"Cache-Control", "Content-Security-Policy", "Etag", "Location", "X-Own"},
	} {
		got := http.Header{}
		Protect(got, place)
		FromWorker(got, from, place)
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
			t.Errorf("in place %d browsers get %q, want %q", place, names, want)
		}
	}
}

func TestAWorkersPolicyDoesNotLoosenTheServers(t *testing.T) {
	from := http.Header{"Content-Security-Policy": {"sandbox allow-scripts allow-same-origin", "default-src *"}, "Refresh": {"0;url=/ui/"}, "X-Content-Type-Options": {"off"}}
	got := http.Header{}
	Protect(got, Shared)
	FromWorker(got, from, Shared)
	if csp := got["Content-Security-Policy"]; len(csp) != 3 || csp[0] != "sandbox" || got["Refresh"] != nil {
		t.Errorf("browsers get %v", got)
	}
	got = http.Header{"Content-Security-Policy": {"default-src 'none'"}, "X-Content-Type-Options": {"nosniff"}}
	Protect(got, API)
	FromWorker(got, from, API)
	if csp := got["Content-Security-Policy"]; len(csp) != 4 || csp[0] != "default-src 'none'" || csp[1] != "sandbox" || got.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("callers of the API get %v", got)
	}
	got = http.Header{}
	Protect(got, OwnOrigin)
	FromWorker(got, from, OwnOrigin)
	if csp := got["Content-Security-Policy"]; len(csp) != 2 || got.Get("Refresh") == "" {
		t.Errorf("on an origin of its own browsers get %v", got)
	}
}

func TestAWorkerSetsNoCookieOfTheServer(t *testing.T) {
	for in, want := range map[string]struct{ own, shared string }{
		"theme=dark":                        {"theme=dark", "theme=dark"},
		"a=1; Path=/; HttpOnly; Max-Age=5":  {"a=1; Path=/; HttpOnly; Max-Age=5", "a=1; Path=/gw/; HttpOnly; Max-Age=5"},
		"a=1; path = /gw/shop; secure":      {"a=1; path = /gw/shop; secure", "a=1; path = /gw/shop; secure"},
		"a=1;Domain=example.org;PATH=/ui":   {"a=1;Domain=example.org;PATH=/ui", "a=1; Path=/gw/"},
		"a=1; Path=/gw/; Path":              {"a=1; Path=/gw/; Path", "a=1; Path=/gw/; Path=/gw/"},
		"godwit=x":                          {},
		"GodWit=x; Path=/":                  {},
		" godwit =x; Domain=example.org":    {},
		"\tgodwit=x":                        {},
		"__Host-godwit=x; Secure; Path=/":   {},
		"__HOST-GODWIT=x; Secure; Path=/":   {},
		"__Secure-godwit=x; Secure; Path=/": {},
		"__Host-Http-godwit=x":              {},
		"godwit-way=x":                      {},
		"=godwit=x":                         {},
		"=x":                                {},
		"godwit":                            {},
		"x":                                 {},
		"":                                  {},
		"; godwit=x":                        {},
		`"godwit"=x`:                        {},
		"a b=x":                             {},
		"a,godwit=x":                        {},
	} {
		for place, want := range map[Place]string{OwnOrigin: want.own, Shared: want.shared, API: want.own} {
			got := http.Header{}
			FromWorker(got, http.Header{"Set-Cookie": {in}}, place)
			if got := strings.Join(got["Set-Cookie"], "|"); got != want {
				t.Errorf("%q in place %d becomes %q, want %q", in, place, got, want)
			}
		}
	}
}

func TestDisplayable(t *testing.T) {
	for kind, want := range map[string]bool{
		"": true, "text/html": true, "multipart/form-data; boundary=x": true, "multipart/x-mixed-replace": false, " Multipart/X-Mixed-Replace ;boundary=x": false,
	} {
		if got := Displayable(kind); got != want {
			t.Errorf("%q: %t", kind, got)
		}
	}
}
