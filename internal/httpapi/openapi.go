package httpapi

import (
	"net/http"

	contract "godwit.dev/godwit/api"
)

// openapi serves the description of this API.
func (a *api) openapi(c *call) error {
	c.w.Header().Set("Content-Type", "application/yaml")
	return c.send(http.StatusOK, contract.OpenAPI())
}
