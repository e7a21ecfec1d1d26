package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

const below = "/gw/"

const plainCall = "GET /gw/shop//a%2Fb?x=1&y HTTP/1.1\r\nHost: x\r\naccept: a\r\nX-Two: 1\r\nX-Empty:\r\nx-two:\t2 \r\n\r\n"

func TestACallIsReadAsNetHTTPReadsIt(t *testing.T) {
	for _, in := range []string{plainCall, "POST /gw/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", "OPTIONS /gw/ HTTP/1.1\r\nHost: x\r\nCookie: a=b\r\nConnection: keep-alive\r\n\r\n"} {
		c, kind := ReadCall([]byte(in), below)
		if kind != Plain {
			t.Fatalf("%q is read as %v", in, kind)
		}
		same(t, []byte(in), &c)
		for n := range c.Size {
			if _, kind := ReadCall([]byte(in[:n]), below); kind != Partial {
				t.Fatalf("the first %d bytes of %q are %v", n, in, kind)
			}
		}
	}
}

// same compares a call with net/http's reading of it.
func same(t *testing.T, in []byte, c *Call) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
	if err != nil {
		t.Fatalf("net/http does not read %q: %v", in, err)
	}
	got := fmt.Sprint(c.Method, *c.URL, c.Target, string(c.Host), c.Length, c.Header)
	want := fmt.Sprint(r.Method, *r.URL, r.RequestURI, r.Host, r.ContentLength, r.Header)
	if got != want || len(r.TransferEncoding) > 0 || r.Trailer != nil || r.Close {
		t.Errorf("%q is %s to net/http and %s here", in, want, got)
	}
}

func TestCallsThatNeedMoreThanAnAnswerAreLeftToNetHTTP(t *testing.T) {
	with := func(header string) string {
		return "POST /gw/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + header + "\r\n\r\n{}"
	}
	for name, in := range map[string]string{
		"another path":      "GET /v1/keys HTTP/1.1\r\nHost: x\r\n\r\n",
		"a whole URL":       "GET http://x/gw/a HTTP/1.1\r\nHost: x\r\n\r\n",
		"an authority":      "CONNECT /gw/a HTTP/1.1\r\nHost: x\r\n\r\n",
		"an odd method":     "PROPFIND /gw/a HTTP/1.1\r\nHost: x\r\n\r\n",
		"an older version":  "GET /gw/a HTTP/1.0\r\nHost: x\r\n\r\n",
		"two spaces":        "GET /gw/a  HTTP/1.1\r\nHost: x\r\n\r\n",
		"a bad escape":      "GET /gw/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"no host":           "GET /gw/a HTTP/1.1\r\n\r\n",
		"a bare line feed":  "GET /gw/a HTTP/1.1\nHost: x\r\n\r\n",
		"chunks":            with("Transfer-Encoding: chunked"),
		"two lengths":       with("Content-Length: 2"),
		"an expectation":    with("Expect: 100-continue"),
		"an upgrade":        with("Upgrade: websocket"),
		"a last request":    with("Connection: close"),
		"a pragma":          with("Pragma: no-cache"),
		"a folded line":     with("X: a\r\n b"),
		"two hosts":         with("Host: x"),
		"a control sign":    with("X: a\x01"),
		"a name with space": with("X : a"),
	} {
		if _, kind := ReadCall([]byte(in), below); kind != Other {
			t.Errorf("%s is read as %v", name, kind)
		}
	}
}

// FuzzReadCall compares ReadCall with net/http: whatever ReadCall accepts, net/http must accept with the same result.
func FuzzReadCall(f *testing.F) {
	f.Add([]byte(plainCall))
	f.Add([]byte("PUT /gw/a HTTP/1.1\r\nhost: x\r\nContent-Length: 3\r\nX: a\r\nX: b\r\n\r\nabc"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, kind := ReadCall(in, below)
		if kind == Partial && len(in) > MaxHead+2 {
			t.Fatalf("%d bytes are partial", len(in))
		}
		if kind == Plain {
			same(t, in, &c)
		}
	})
}

// TestAWrittenAnswerIsWhatNetHTTPSends compares answers with those of net/http to the same handler.
func TestAWrittenAnswerIsWhatNetHTTPSends(t *testing.T) {
	for _, c := range []struct {
		status int
		header http.Header
		body   string
	}{
		{200, http.Header{"Content-Type": {"text/plain"}, "X-A": {"1", "2"}, "Set-Cookie": {"a=b"}}, "hello"},
		{200, http.Header{"Content-Type": {"text/plain"}, "Content-Length": {"5"}, "Date": {"Fri, 02 Jan 2026 02:04:05 GMT"}}, "hello"},
		{200, http.Header{"Content-Type": nil}, ""},
		{204, http.Header{"X-A": {"1"}}, ""},
		{304, http.Header{"Etag": {`"a"`}}, ""},
		{404, http.Header{"Content-Type": {"application/problem+json"}}, "{}"},
		{599, http.Header{"Content-Type": nil, "X-A": {"a\r\nb"}}, "x"},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), c.header)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			req, err := http.NewRequestWithContext(t.Context(), method, srv.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := srv.Client().Do(req)
			want := read(t, resp, err)
			out := AppendWritten(nil, c.status, c.header, []byte(c.body), method == http.MethodHead, time.Now(), false)
			rest := bufio.NewReader(bytes.NewReader(out))
			resp, err = http.ReadResponse(rest, req)
			if got := read(t, resp, err); got != want || rest.Buffered() > 0 {
				t.Errorf("%s %d: net/http sends\n%s\nhere it is\n%s\nand %d bytes more", method, c.status, want, got, rest.Buffered())
			}
			srv.Close()
		}
	}
	out := AppendWritten(nil, 200, http.Header{"Connection": {"keep-alive"}}, nil, false, time.Now(), true)
	if resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil); err != nil || !resp.Close || len(resp.Header["Connection"]) > 0 {
		t.Errorf("the last answer is read as %+v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
}

// read describes an answer.
func read(t *testing.T, resp *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		if name != "Date" || resp.Header.Get(name)[:3] == "Fri" {
			fields = append(fields, fmt.Sprint(name, resp.Header[name]))
		}
	}
	return fmt.Sprint(resp.Status, resp.ContentLength, fields, string(body), err)
}
