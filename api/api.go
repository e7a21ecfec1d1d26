// Package api carries the public contract files that the server shows.
package api

import (
	_ "embed" // the files are part of the binary
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the description of the HTTP API, as YAML. It must not be changed.
func OpenAPI() []byte { return openAPI }
