package public

import (
	"net/http"
	"strings"
	"sync"

	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/server/sdk"
)

// SDK makes GET /sdk/{file}: the browser scripts, which pages of any origin load.
func (a *API) SDK() func(c *call.Call) error {
	files := sync.OnceValues(sdk.Files) // compressed at the first request
	return func(c *call.Call) error {
		all, err := files()
		if err != nil {
			return err
		}
		f := all[c.R.PathValue("file")]
		if f == nil {
			return problem.NotFound.With("there is no script of this name")
		}
		return script(c, f, c.Query().Get("v") == f.Tag)
	}
}

// sdkForEver is the Cache-Control of a script whose URL contains its tag: its content never changes.
const sdkForEver = "public, max-age=31536000, immutable"

// sdkFresh is the Cache-Control of other scripts: a page may use its cached copy for an hour, so an update reaches visitors within an hour.
const sdkFresh = "public, max-age=3600"

// script answers with a script, or with 304 if the browser's copy is current.
func script(c *call.Call, f *sdk.File, byTag bool) error {
	h := c.W.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Cache-Control", sdkFresh)
	h.Set("Vary", "Accept-Encoding")
	// A worker obeys the policy in its script's answer: it may connect to servers and load nothing.
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src *; img-src *")
	if byTag {
		h.Set("Cache-Control", sdkForEver)
	}
	if f.Worker {
		h.Set("Service-Worker-Allowed", "/")
		h.Set("Cache-Control", "no-cache")
	}
	body, tag := f.Body, `"`+f.Tag+`"`
	if takesGZip(c.R) {
		body, tag = f.GZip, `"`+f.Tag+`-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if matches(c.R.Header.Get("If-None-Match"), tag) {
		h.Del("Content-Encoding")
		return c.Send(http.StatusNotModified, nil)
	}
	return c.Send(http.StatusOK, body)
}

// matches reports whether If-None-Match (RFC 9110, section 13.1.2) names the tag; it compares weakly, since proxies
// that compress weaken tags.
func matches(header, tag string) bool {
	for t := range strings.SplitSeq(header, ",") {
		if t = strings.TrimPrefix(strings.TrimSpace(t), "W/"); t == tag || t == "*" {
			return true
		}
	}
	return false
}

// takesGZip reports whether Accept-Encoding names gzip and does not forbid it.
func takesGZip(r *http.Request) bool {
	for e := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(e, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			switch strings.ReplaceAll(weight, " ", "") {
			case "q=0", "q=0.0", "q=0.00", "q=0.000":
				return false
			}
			return true
		}
	}
	return false
}
