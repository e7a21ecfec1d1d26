package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// notFound answers requests that no route matched: 405 if the path exists with other methods, else 404.
func (a *api) notFound(c *call.Call) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		probe := &http.Request{Method: method, URL: c.R.URL, Host: c.R.Host}
		if _, pattern := a.mux.Handler(probe); pattern != "" && pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	if len(allowed) == 0 {
		return problem.NoSuchPath.With("nothing is served at " + notification.Clip(c.R.URL.Path) + "; GET /openapi.yaml lists what is")
	}
	list := strings.Join(allowed, ", ")
	c.W.Header().Set("Allow", list)
	return problem.MethodNotAllowed.With("this path takes " + list)
}
