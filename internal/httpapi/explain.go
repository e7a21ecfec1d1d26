package httpapi

import (
	"net/http"
	"slices"

	"godwit.dev/godwit/internal/problem"
)

// explain is GET /problems/{slug}: the type of a problem is the path of its explanation.
func (a *api) explain(c *call) error {
	slug := c.r.PathValue("slug")
	text, ok := problem.Page(slug)
	if !ok {
		return problem.NotFound.With("there is no problem of this name")
	}
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	return c.send(http.StatusOK, slices.Concat([]byte(slug), []byte("\n\n"), []byte(text), []byte("\n")))
}
