package httpapi_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

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

// operation finds a request's operation in the spec: literal paths precede those with parameters.
func operation(doc *openapi3.T, method, path string) (*routers.Route, map[string]string) {
	have := strings.Split(path, "/")
	for _, template := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		want, params := strings.Split(template, "/"), map[string]string{}
		if len(want) != len(have) {
			continue
		}
		match := true
		for i := range want {
			if strings.HasPrefix(want[i], "{") {
				params[strings.Trim(want[i], "{}")] = have[i]
			} else if want[i] != have[i] {
				match = false
				break
			}
		}
		item := doc.Paths.Value(template)
		if op := item.GetOperation(method); match && op != nil {
			return &routers.Route{Spec: doc, Path: template, PathItem: item, Method: method, Operation: op}, params
		}
	}
	return nil, nil
}

// conforms checks an exchange against the spec. A request that was refused, even partly, need not conform; every answer must.
func conforms(t testing.TB, req *http.Request, sent []byte, resp *http.Response, got []byte) {
	t.Helper()
	route, params := operation(apispec.Document(t), req.Method, req.URL.Path)
	if route == nil {
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s %s is not in the spec", req.Method, req.URL.Path)
		}
		return
	}
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true}
	req = req.Clone(t.Context())
	req.Body = io.NopCloser(bytes.NewReader(sent))
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options}
	if resp.StatusCode < 400 && !bytes.Contains(got, []byte(`"error":`)) {
		if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil {
			t.Errorf("%s %s was accepted against the spec: %v", req.Method, req.URL, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Options: options}
	out.SetBodyBytes(got)
	if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
		t.Errorf("the answer to %s %s is against the spec: %v\n%s", req.Method, req.URL, err, got)
	}
}
