// Package api carries the public contract files that the server shows.
package api

import (
	_ "embed" // for the go:embed directive below
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the description of the HTTP API as YAML. Callers must not modify the slice.
func OpenAPI() []byte { return openAPI }
