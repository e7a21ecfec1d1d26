package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Try sends a request and decodes the answer into into, unless that is nil. It returns an error if the answer is no success.
func (a *API) Try(ctx context.Context, method, path string, body, into any) error {
	_, err := a.try(ctx, method, path, body, into)
	return err
}

func (a *API) try(ctx context.Context, method, path string, body, into any) (*Answer, error) {
	answer, err := a.Do(ctx, method, path, body)
	if err == nil && answer.Status >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %d %s", method, path, answer.Status, answer.Body)
	}
	if err == nil && into != nil {
		err = answer.JSON(into)
	}
	return answer, err
}

// Call is Try; it ends the test if the request has no success.
func (a *API) Call(t testing.TB, method, path string, body, into any) *Answer {
	t.Helper()
	answer, err := a.try(t.Context(), method, path, body, into)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Connect connects and reads the welcome. The connection is cut when the test ends.
func (s *Server) Connect(t testing.TB, transport string, h Hello) Link {
	t.Helper()
	l, err := s.Dial(t.Context(), transport, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Cut)
	if f, err := l.Next(t.Context()); err != nil || f.Welcome == nil {
		t.Fatalf("hello: %+v, %v", f, err)
	}
	return l
}

// CreateApp creates an app with the command line and returns its key.
func (s *Server) CreateApp(t testing.TB, name string) (key string) {
	t.Helper()
	out, err := s.Manage("app", "create", name, "--data", s.Dir, "--json")
	if err != nil {
		t.Fatalf("create app: %v\n%s", err, out)
	}
	var created struct{ Key string }
	// Before and after the key the output may mention that a data folder was created.
	said := out[max(strings.Index(out, "{"), 0):]
	if err := json.NewDecoder(strings.NewReader(said)).Decode(&created); err != nil || created.Key == "" {
		t.Fatalf("app create printed %q: %v", out, err)
	}
	return created.Key
}

// Token signs a token for a recipient of an app with the command line.
func (s *Server) Token(t testing.TB, app, recipient string, more ...string) string {
	t.Helper()
	out, err := s.Manage(append([]string{"token", "--app", app, "--recipient", recipient, "--data", s.Dir}, more...)...)
	if err != nil {
		t.Fatalf("make token: %v\n%s", err, out)
	}
	return strings.TrimSpace(out)
}
