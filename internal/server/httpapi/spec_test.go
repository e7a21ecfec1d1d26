package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/testkit/apispec"
)

// TestRoutesAreSpecified compares the routes with the OpenAPI file; package app tests the other direction.
func TestRoutesAreSpecified(t *testing.T) {
	specified := apispec.Patterns(apispec.Document(t))
	for _, rt := range routes() {
		if !slices.Contains(specified, rt.Pattern) {
			t.Errorf("%s is served but not specified", rt.Pattern)
		}
	}
}

// TestEveryProblemHasAPage compares the registry, the pages and the spec.
func TestEveryProblemHasAPage(t *testing.T) {
	w := newWorld(t)
	var specified []string
	for _, slug := range apispec.Document(t).Paths.Value("/problems/{slug}").Get.Parameters.GetByInAndName("path", "slug").Schema.Value.Enum {
		specified = append(specified, slug.(string))
	}
	for _, is := range problem.Types() {
		a := w.do(request{method: "GET", path: is.New().Type, key: "-"}).want(http.StatusOK)
		if !strings.HasPrefix(a.body, is.Slug()+"\n\n") {
			t.Errorf("the page of %s is %q", is.Slug(), a.body)
		}
		if !slices.Contains(specified, is.Slug()) {
			t.Errorf("%s is not in the spec", is.Slug())
		}
	}
	for _, slug := range specified {
		if _, ok := problem.Page(slug); !ok {
			t.Errorf("%s is specified but not a problem", slug)
		}
	}
}
