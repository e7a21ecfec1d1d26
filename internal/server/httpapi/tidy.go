package httpapi

import (
	"net/http"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// apiPrefix is the prefix of the API's paths.
const apiPrefix = "/v1/"

// tidy refuses requests whose path or query no route accepts, before routes, gateways and the web page see them.
func (a *api) tidy(next http.Handler) http.Handler {
	m := a.metrics.Route("untidy")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := checkURL(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		if page := missingPage(r.URL.Path); page != "" {
			next.ServeHTTP(w, asking(r, page))
			return
		}
		begun := time.Now()
		c := &call.Call{W: w, R: r, Ctx: r.Context()}
		defer a.finish(c, m, begun)
		secure(w.Header())
		a.fail(c, err)
	})
}

// missing is the last part of the path of a page that does not exist.
const missing = "unreadable"

// missingPage returns the path of a page that does not exist, below the same pages for people as another path; "": that is none of theirs. A
// person who followed a broken link gets a page that says so.
func missingPage(path string) string {
	switch {
	case path == "/" || strings.HasPrefix(path, "/ui/"):
		return "/ui/" + missing
	case path == "/docs" || strings.HasPrefix(path, "/docs/"):
		return "/docs/" + missing
	}
	return ""
}

// asking returns a request for a page in the place of another request, without that one's query and body.
func asking(r *http.Request, page string) *http.Request {
	other := r.Clone(r.Context())
	other.URL.Path, other.URL.RawPath, other.URL.RawQuery, other.RequestURI = page, "", "", page
	if other.Method != http.MethodHead {
		other.Method = http.MethodGet
	}
	return other
}

// checkSteps refuses names in a path of the API for which net/http would redirect the client to another path.
func checkSteps(path string) error {
	if path != "" && path[0] == '/' || strings.Contains(path, "//") {
		return notification.BadField("path", "has an empty name between two slashes")
	}
	if !strings.Contains(path, ".") {
		return nil
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return notification.CheckName("path", part)
		}
	}
	return nil
}

// checkURL refuses text that some stores cannot hold, and names for which net/http would redirect to another path.
func checkURL(r *http.Request) error {
	if err := notification.CheckText("path", r.URL.Path); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(r.URL.Path, apiPrefix); ok {
		if err := checkSteps(path); err != nil {
			return err
		}
	}
	query := r.URL.RawQuery
	if err := notification.CheckText("query", query); err != nil || !strings.Contains(query, "%") {
		return err
	}
	for name, values := range r.URL.Query() {
		if notification.CheckText("query", name) != nil {
			return notification.BadField("query", "has a name with NUL or bytes that are not UTF-8")
		}
		for _, value := range values {
			if err := notification.CheckText(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}
