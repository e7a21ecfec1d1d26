package httpapi_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"godwit.dev/godwit/api"
	"godwit.dev/godwit/internal/server/problem"
)

var loadSpec = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI())
	if err == nil {
		err = doc.Validate(context.Background())
	}
	return doc, err
})

func spec(t testing.TB) *openapi3.T {
	doc, err := loadSpec()
	if err != nil {
		t.Fatalf("api/openapi.yaml: %v", err)
	}
	return doc
}

// gateways are the paths of the spec that other packages serve.
var gateways = []string{"GET /v1/connect", "GET /v1/stream", "GET /v1/poll", "POST /v1/frames", "GET /{$}"}

func TestSpecAndRoutesAgree(t *testing.T) {
	var specified []string
	for path, item := range spec(t).Paths.Map() {
		if path == "/" {
			path = "/{$}"
		}
		for method := range item.Operations() {
			if p := method + " " + path; !slices.Contains(gateways, p) {
				specified = append(specified, p)
			}
		}
	}
	var served []string
	for _, rt := range routes() {
		served = append(served, rt.Pattern)
	}
	slices.Sort(specified)
	slices.Sort(served)
	for _, p := range specified {
		if !slices.Contains(served, p) {
			t.Errorf("%s is specified but not served", p)
		}
	}
	for _, p := range served {
		if !slices.Contains(specified, p) {
			t.Errorf("%s is served but not specified", p)
		}
	}
}

// TestEveryProblemHasAPage holds the registry, the pages and the spec together.
func TestEveryProblemHasAPage(t *testing.T) {
	w := newWorld(t)
	var specified []string
	for _, slug := range spec(t).Paths.Value("/problems/{slug}").Get.Parameters.GetByInAndName("path", "slug").Schema.Value.Enum {
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

// operation finds what the spec says of a request: literal paths go before those with parameters.
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

// conforms checks an exchange against the spec. A request that was refused, even in part, need not conform; every
// answer must.
func conforms(t testing.TB, req *http.Request, sent []byte, resp *http.Response, got []byte) {
	t.Helper()
	route, params := operation(spec(t), req.Method, req.URL.Path)
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
