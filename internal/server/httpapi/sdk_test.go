package httpapi_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/sdk"
)

func TestScriptsAreServedToAnyPage(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"godwit.js", "sw.js", "perfecty.js", "live.js", "webtransport.js", "texts.js", "dialogs.js", "once.js"} {
		a := w.do(request{method: "GET", path: "/sdk/" + name, key: "-"}).want(http.StatusOK)
		h := a.header
		if h.Get("Content-Type") != "text/javascript; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: type %q", name, h.Get("Content-Type"))
		}
		if h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Cross-Origin-Resource-Policy") != "cross-origin" {
			t.Errorf("%s cannot be loaded by other origins: %v", name, h)
		}
		// A service worker obeys the policy of its script: without connect-src it could report nothing.
		if !strings.Contains(h.Get("Content-Security-Policy"), "connect-src *") {
			t.Errorf("%s: policy %q", name, h.Get("Content-Security-Policy"))
		}
		worker := name == "sw.js"
		if (h.Get("Service-Worker-Allowed") == "/") != worker || strings.Contains(h.Get("Cache-Control"), "no-cache") != worker {
			t.Errorf("%s: scope %q, cache %q", name, h.Get("Service-Worker-Allowed"), h.Get("Cache-Control"))
		}
		if len(a.body) < 1000 || h.Get("ETag") == "" {
			t.Errorf("%s: %d bytes, tag %q", name, len(a.body), h.Get("ETag"))
		}
	}
	files, err := sdk.Files()
	if err != nil {
		t.Fatal(err)
	}
	for path, keeps := range map[string]bool{
		"/sdk/texts.js?v=" + files["texts.js"].Tag: true, "/sdk/texts.js?v=older": false, "/sdk/texts.js?x=1": false,
		"/sdk/sw.js?v=" + files["sw.js"].Tag: false, // the worker file on the site loads it without a tag
	} {
		a := w.do(request{method: "GET", path: path, key: "-"}).want(http.StatusOK)
		if got := a.header.Get("Cache-Control"); strings.Contains(got, "immutable") != keeps {
			t.Errorf("%s: cache %q", path, got)
		}
	}
	w.get("/sdk/none.js").problem(http.StatusNotFound, "not-found", "")
	w.get("/sdk/../sdk.go").problem(http.StatusNotFound, "no-such-path", "")
}

func TestScriptsAreCompressedAndNotSentAgain(t *testing.T) {
	w := newWorld(t)
	ask := func(encoding, have string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+"/sdk/godwit.js", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", encoding) // with the header set by hand, the transport does not decompress
		if have != "" {
			r.Header.Set("If-None-Match", have)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	plain := ask("identity", "")
	packed := ask("br, gzip;q=0.8", "")
	if plain.Header.Get("Content-Encoding") != "" || packed.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("encodings %q and %q", plain.Header.Get("Content-Encoding"), packed.Header.Get("Content-Encoding"))
	}
	if got := ask("gzip;q=0", "").Header.Get("Content-Encoding"); got != "" {
		t.Errorf("who refuses gzip gets %q", got)
	}
	want, err := io.ReadAll(plain.Body)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || string(got) != string(want) {
		t.Errorf("the compressed script is another one: %v", err)
	}
	for encoding, resp := range map[string]*http.Response{"identity": plain, "gzip": packed} {
		tag := resp.Header.Get("ETag")
		if again := ask(encoding, `"old", W/`+tag); again.StatusCode != http.StatusNotModified {
			t.Errorf("with tag %s: %s", tag, again.Status)
		}
	}
	if plain.Header.Get("ETag") == packed.Header.Get("ETag") {
		t.Error("two encodings share a tag")
	}
	if resp := ask("identity", `"old"`); resp.StatusCode != http.StatusOK {
		t.Errorf("with an old tag: %s", resp.Status)
	}
}
