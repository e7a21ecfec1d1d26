package godwit

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// recorded starts a server that records the paths of requests.
func recorded(t *testing.T) (c *Client, paths func() []string) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.EscapedPath())
		_ = json.NewEncoder(w).Encode(map[string]any{})
	}))
	t.Cleanup(srv.Close)
	c, err := New(srv.URL+"/push%2Da", WithAPIKey("k"))
	if err != nil {
		t.Fatal(err)
	}
	return c, func() []string { return got }
}

func TestNamesThatStepToAnotherPathAreRefused(t *testing.T) {
	c, paths := recorded(t)
	ctx := t.Context()
	for _, name := range []string{"", ".", ".."} {
		for what, err := range map[string]error{
			"recall":        c.Recall(ctx, name),
			"status":        second(c.Status(ctx, name, "ann")),
			"preferences":   second(c.Preferences(ctx, name)),
			"registrations": second(c.Registrations(ctx, "rides", name)),
			"ask":           second(c.AskRecipient(ctx, name, nil, AskOptions{})),
			"topic":         c.PublishMessage(ctx, Message{Topic: name}),
			"object":        second(c.GetObject(ctx, "rides", name)),
			"group":         c.DeleteObject(ctx, name, "7"),
			"endpoint":      c.DeleteEndpoint(ctx, name),
			"channel":       c.DeleteChannel(ctx, name),
			"node":          c.ForgetNode(ctx, name),
			"call":          c.Call(ctx, Call{Method: http.MethodDelete, Path: "/v1/recipients/" + name}, nil),
			"call in it":    c.Call(ctx, Call{Method: http.MethodGet, Path: "/v1/recipients/" + name + "/notifications"}, nil),
			"call escaped":  c.Call(ctx, Call{Method: http.MethodDelete, Path: "/v1/notifications/" + strings.ReplaceAll(name, ".", "%2e")}, nil),
		} {
			if err == nil {
				t.Errorf("%s of %q is no error", what, name)
			}
		}
	}
	if got := paths(); len(got) > 0 {
		t.Errorf("the server was asked for %q", got)
	}
}

func TestNamesStandInPathsAsTheyAre(t *testing.T) {
	c, paths := recorded(t)
	ctx := t.Context()
	_ = c.Recall(ctx, "../recipients/ann")
	_ = c.Recall(ctx, "a?b#c%2e")
	_ = c.Recall(ctx, "...")
	_, _ = c.Ask(ctx, "orders.a%2Eb", nil, AskOptions{})
	_ = c.PublishMessage(ctx, Message{Topic: "rides.a%2Eb"})
	want := []string{
		"DELETE /push%2Da/v1/notifications/..%2Frecipients%2Fann", "DELETE /push%2Da/v1/notifications/a%3Fb%23c%252e", "DELETE /push%2Da/v1/notifications/...",
		"POST /push%2Da/v1/requests/orders.a%252Eb", "POST /push%2Da/v1/topics/rides.a%252Eb",
	}
	if got := paths(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the server was asked for\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func second[T any](_ T, err error) error { return err }
