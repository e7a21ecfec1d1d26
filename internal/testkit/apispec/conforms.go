package apispec

import (
	"bytes"
	"context"
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

// exchange is a request and its answer, as the filter of the OpenAPI library takes them.
func exchange(req *http.Request, sent []byte) (*openapi3filter.RequestValidationInput, error) {
	doc, err := load()
	if err != nil {
		return nil, fmt.Errorf("read api/openapi.yaml: %w", err)
	}
	route, params := operation(doc, req.Method, req.URL.Path)
	if route == nil {
		return nil, nil
	}
	req = req.Clone(context.Background())
	req.Body = io.NopCloser(bytes.NewReader(sent))
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true}
	return &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options}, nil
}

// Conforms compares a request and its answer with the OpenAPI file. Every answer must conform; a request that was refused, even in part,
// need not.
func Conforms(req *http.Request, sent []byte, resp *http.Response, got []byte) error {
	in, err := exchange(req, sent)
	if err != nil {
		return err
	}
	if in != nil && resp.StatusCode < http.StatusBadRequest && !bytes.Contains(got, []byte(`"error":`)) {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			return fmt.Errorf("%s %s was accepted against the spec: %w", req.Method, req.URL, err)
		}
	}
	return answered(in, req, resp, got)
}

// AnswerConforms compares an answer in JSON with the OpenAPI file. Other answers may come from a worker or a proxy.
func AnswerConforms(req *http.Request, resp *http.Response, got []byte) error {
	if media := resp.Header.Get("Content-Type"); media != "application/json" && media != "application/problem+json" {
		return nil
	}
	in, err := exchange(req, nil)
	if err != nil {
		return err
	}
	return answered(in, req, resp, got)
}

func answered(in *openapi3filter.RequestValidationInput, req *http.Request, resp *http.Response, got []byte) error {
	if in == nil {
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
			return fmt.Errorf("%s %s is not in the spec", req.Method, req.URL.Path)
		}
		return nil
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Options: in.Options}
	out.SetBodyBytes(got)
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		return fmt.Errorf("the answer to %s %s is against the spec: %w\n%s", req.Method, req.URL, err, got)
	}
	return nil
}
