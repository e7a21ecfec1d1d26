package apispec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// template is a path of the OpenAPI file.
type template struct {
	path  string
	parts []string
}

// templates lists literal paths before those with parameters.
var templates = sync.OnceValue(func() (list []template) {
	doc, _ := load()
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		list = append(list, template{path, strings.Split(path, "/")})
	}
	return list
})

// params returns the values of the template's parameters in a path, or false if the path does not match.
func (t *template) params(have []string) (map[string]string, bool) {
	if len(t.parts) != len(have) {
		return nil, false
	}
	params := map[string]string{}
	for i, want := range t.parts {
		if strings.HasPrefix(want, "{") {
			params[strings.Trim(want, "{}")] = have[i]
		} else if want != have[i] {
			return nil, false
		}
	}
	return params, true
}

// operation finds a request's operation in the spec.
func operation(doc *openapi3.T, method, path string) (*routers.Route, map[string]string) {
	have := strings.Split(path, "/")
	for _, t := range templates() {
		params, ok := t.params(have)
		if !ok {
			continue
		}
		item := doc.Paths.Value(t.path)
		if op := item.GetOperation(method); op != nil {
			return &routers.Route{Spec: doc, Path: t.path, PathItem: item, Method: method, Operation: op}, params
		}
	}
	return nil, nil
}

// Conforms compares an exchange with the OpenAPI file. Every answer must conform; a request that was refused, even in part, need not.
func Conforms(req *http.Request, sent []byte, resp *http.Response, got []byte) error {
	doc, err := load()
	if err != nil {
		return fmt.Errorf("read api/openapi.yaml: %w", err)
	}
	route, params := operation(doc, req.Method, req.URL.Path)
	if route == nil {
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
			return fmt.Errorf("%s %s is not in the spec", req.Method, req.URL.Path)
		}
		return nil
	}
	ctx := context.Background()
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true}
	req = req.Clone(ctx)
	req.Body = io.NopCloser(bytes.NewReader(sent))
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options}
	var problems []error
	if resp.StatusCode < http.StatusBadRequest && !bytes.Contains(got, []byte(`"error":`)) {
		if err := openapi3filter.ValidateRequest(ctx, in); err != nil {
			problems = append(problems, fmt.Errorf("%s %s was accepted against the spec: %w", req.Method, req.URL, err))
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Options: options}
	out.SetBodyBytes(got)
	if err := openapi3filter.ValidateResponse(ctx, out); err != nil {
		problems = append(problems, fmt.Errorf("the answer to %s %s is against the spec: %w\n%s", req.Method, req.URL, err, got))
	}
	return errors.Join(problems...)
}
