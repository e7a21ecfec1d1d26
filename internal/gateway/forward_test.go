package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/gateway"
)

// between connects a node to another node with these handlers, as the bus does.
func between(node string, handlers map[string]http.Handler) *gateway.Forwarder {
	return &gateway.Forwarder{Node: node, Ask: func(ctx context.Context, to string, request any) (json.RawMessage, error) {
		if to != "theirs" {
			return nil, errors.New("there is no such node")
		}
		b, err := json.Marshal(request)
		if err != nil {
			return nil, err
		}
		v, err := gateway.Serve(ctx, handlers, b)
		if err != nil {
			return nil, err
		}
		return json.Marshal(v)
	}}
}

func TestRequestIsCarriedOutOnTheNodeOfItsSession(t *testing.T) {
	f := between("mine", map[string]http.Handler{
		"/v1/poll": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("X-Secret", "stays there")
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, r.Method+" "+r.URL.RawQuery+" "+string(b))
		}),
	})
	for session, want := range map[string]struct {
		done   bool
		status int
		body   string
	}{
		"secret.theirs": {true, http.StatusTeapot, "GET session=x&wait=1s body"},
		"secret.gone":   {true, http.StatusNotFound, "session"},
		"secret.mine":   {false, http.StatusOK, ""},
		"secret":        {false, http.StatusOK, ""},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/v1/poll?session=x&wait=1s", nil)
		done := f.Forward(w, r, session, []byte("body"))
		if done != want.done || w.Code != want.status || !strings.Contains(w.Body.String(), want.body) {
			t.Errorf("%s: %t %d %s", session, done, w.Code, w.Body)
		}
		if w.Header().Get("X-Secret") != "" {
			t.Error("other headers come along")
		}
	}
	w := httptest.NewRecorder()
	if f.Forward(w, httptest.NewRequest(http.MethodGet, "/v1/apps", nil), "secret.theirs", nil); w.Code != http.StatusNotFound {
		t.Errorf("what is not for sessions is carried out: %d", w.Code)
	}
	var none *gateway.Forwarder
	if none.Forward(w, httptest.NewRequest(http.MethodGet, "/v1/poll", nil), "secret.theirs", nil) {
		t.Error("a node that is alone forwards")
	}
}
