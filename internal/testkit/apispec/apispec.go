// Package apispec compares routes with the OpenAPI file.
package apispec

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"godwit.dev/godwit/api"
	"godwit.dev/godwit/internal/server/module"
)

var load = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI())
	if err == nil {
		err = doc.Validate(context.Background())
	}
	return doc, err
})

// Document is the OpenAPI file. It must not be changed.
func Document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := load()
	if err != nil {
		t.Fatalf("api/openapi.yaml: %v", err)
	}
	return doc
}

// Patterns lists the operations of a document as patterns of net/http.
func Patterns(doc *openapi3.T) (list []string) {
	for path, item := range doc.Paths.Map() {
		if path == "/" {
			path = "/{$}"
		}
		for method := range item.Operations() {
			list = append(list, method+" "+path)
		}
	}
	slices.Sort(list)
	return list
}

// Unspecified lists the routes of a module that are missing in an OpenAPI document, each with the required change.
func Unspecified(doc *openapi3.T, routes []module.Route) (problems []string) {
	specified := Patterns(doc)
	for _, rt := range routes {
		if !slices.Contains(specified, rt.Pattern) {
			problems = append(problems, fmt.Sprintf("module %s serves %s, which api/openapi.yaml lacks: describe it there", rt.Module, rt.Pattern))
		}
	}
	return problems
}
