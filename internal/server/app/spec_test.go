package app_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/testkit/apispec"
)

// parameter matches a parameter in a path.
var parameter = regexp.MustCompile(`\{\w+\}`)

// TestRoutesOfModulesAreSpecified compares the routes of the modules that join every server with the OpenAPI file.
func TestRoutesOfModulesAreSpecified(t *testing.T) {
	served := map[string]string{}
	for _, rt := range start(t, settings(t)).Modules().Routes() {
		served[rt.Pattern] = rt.Module
	}
	for _, problem := range apispec.Unspecified(apispec.Document(t), served) {
		t.Error(problem)
	}
}

// TestEverySpecifiedOperationIsServed sends each path a method that no path has: the error lists the valid methods.
func TestEverySpecifiedOperationIsServed(t *testing.T) {
	at := "http://" + start(t, settings(t)).Addresses().HTTP
	for _, pattern := range apispec.Patterns(apispec.Document(t)) {
		method, path, _ := strings.Cut(pattern, " ")
		status, body, header := ask(t, "BREW", at+parameter.ReplaceAllString(strings.TrimSuffix(path, "{$}"), "x"), "")
		if strings.Contains(body, problem.NoSuchPath.New().Type) || status == http.StatusMethodNotAllowed && !slices.Contains(strings.Split(header.Get("Allow"), ", "), method) {
			t.Errorf("%s is specified but not served: %d %s", pattern, status, body)
		}
	}
}
