// Package apispec compares routes, requests and answers with the OpenAPI file.
package apispec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"

	"godwit.dev/godwit/api"
)

// asText lists the media types of which only the presence is checked.
var asText = []string{"application/x-ndjson", "application/yaml", "text/html", "text/event-stream", "text/javascript", "text/css", "application/x-www-form-urlencoded"}

var load = sync.OnceValues(func() (*openapi3.T, error) {
	for _, media := range asText {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
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

// Unspecified lists the served patterns that an OpenAPI document lacks, each with what to do about it. Served has the module of each.
func Unspecified(doc *openapi3.T, served map[string]string) (problems []string) {
	specified := Patterns(doc)
	for _, pattern := range slices.Sorted(maps.Keys(served)) {
		if !slices.Contains(specified, pattern) {
			problems = append(problems, fmt.Sprintf("module %s serves %s, which api/openapi.yaml lacks: describe it there", served[pattern], pattern))
		}
	}
	return problems
}
