package cluster

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"godwit.dev/godwit/internal/server/tracing/tracetest"
	"godwit.dev/godwit/test/blackbox"
)

// Notifications are published on one node, and delivered and acknowledged on another, to one recipient who is online and one who connects
// later. The node that owns the app posts the hook.
func TestOneTraceLeadsOverSeveralNodes(t *testing.T) {
	t.Parallel()
	collector := tracetest.Start(t)
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	c := Start(t, Options{Nodes: 2, Serve: []blackbox.Option{blackbox.Args("--otlp", collector.URL, "--allow-private-urls")}})
	if a, err := c.Nodes[0].API().Do(t.Context(), http.MethodPut, "/v1/hooks/crm", map[string]any{"url": hook.URL, "types": []string{"acked"}}); err != nil || a.Status >= http.StatusMultipleChoices {
		t.Fatalf("make a hook: %v %v", a, err)
	}
	for who, trace := range map[string]string{"here": "4bf92f3577b34da6a3ce929d0e0e4736", "later": "4bf92f3577b34da6a3ce929d0e0e4737"} {
		t.Run(who, func(t *testing.T) {
			var link blackbox.Link
			dial := func() {
				var err error
				if link, err = c.Nodes[1].Dial(t.Context(), "ws", blackbox.Hello{Recipient: who}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(link.Cut)
			}
			if who == "here" {
				dial()
			}
			publishTraced(t, c.Nodes[0], who, "00-"+trace+"-00f067aa0ba902b7-01")
			if who == "later" {
				collector.Until(t, trace, "publish demo")
				dial()
			}
			if _, err := blackbox.NextNotification(t.Context(), link); err != nil {
				t.Fatal(err)
			}
			if err := link.Ack(t.Context(), "n"); err != nil {
				t.Fatal(err)
			}
			spans := collector.Until(t, trace, "publish demo", "commit", "deliver demo", "ack demo", "hook crm")
			publish := spans[slices.IndexFunc(spans, func(s *tracepb.Span) bool { return s.GetName() == "publish demo" })]
			for _, s := range spans {
				if s != publish && string(s.GetParentSpanId()) != string(publish.GetSpanId()) {
					t.Errorf("%s hangs from %x, not from the publish", s.GetName(), s.GetParentSpanId())
				}
			}
		})
	}
	// A node sends its last traces when it leaves the cluster.
	for i, node := range c.Nodes {
		if code := node.Stop(); code != 0 {
			t.Errorf("node %d ended with %d", i, code)
		}
	}
}

func publishTraced(t *testing.T, s *blackbox.Server, to, traceparent string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL("/v1/notifications"), strings.NewReader(`{"to":"`+to+`","id":"n","title":"Hi"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	req.Header.Set("Traceparent", traceparent)
	client := blackbox.NewHTTPClient()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("publish: %s", resp.Status)
	}
}
