package public

import (
	"net/http"
	"slices"

	contract "godwit.dev/godwit/api"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// Explain is GET /problems/{slug}: the type of a problem is the path of its explanation.
func (a *API) Explain(c *call.Call) error {
	slug := c.R.PathValue("slug")
	text, ok := problem.Page(slug)
	if !ok {
		return problem.NotFound.With("there is no problem of this name")
	}
	c.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	return c.Send(http.StatusOK, slices.Concat([]byte(slug), []byte("\n\n"), []byte(text), []byte("\n")))
}

// OpenAPI serves the description of this API.
func (a *API) OpenAPI(c *call.Call) error {
	c.W.Header().Set("Content-Type", "application/yaml")
	return c.Send(http.StatusOK, contract.OpenAPI())
}
