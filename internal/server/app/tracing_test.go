package app_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"godwit.dev/godwit/api/godwitpb"
	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/tracing/tracetest"
)

// traced is a client's transport that adds a trace to requests, as OpenTelemetry's does.
type traced struct {
	next   http.RoundTripper
	parent string
}

func (t *traced) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", t.parent)
	return t.next.RoundTrip(r)
}

const publisherSpan = "00f067aa0ba902b7"

func trace(n int) (id, traceparent string) {
	id = fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e%04x", n)
	return id, "00-" + id + "-" + publisherSpan + "-01"
}

// The test publishes over HTTP, read by net/http and by package direct, and over gRPC; each notification has a step that is sent while its
// recipient is away. Then the server restarts, and the recipient connects and acknowledges.
func TestOneTraceLeadsFromThePublisherOverARestartToTheAcknowledgement(t *testing.T) {
	collector := tracetest.Start(t)
	hooks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hooks.Close)
	cfg := settings(t)
	cfg.OTLP, cfg.AllowPrivateURLs = collector.URL, true
	a := start(t, cfg)
	base := "http://" + a.Addresses().HTTP
	for _, q := range [][3]string{
		{"PUT", "/v1/channels/webhook", `{"enabled":true}`},
		{"PUT", "/v1/hooks/crm", fmt.Sprintf(`{"url":%q,"types":["acked"]}`, hooks.URL)},
		{"POST", "/v1/endpoints", fmt.Sprintf(`{"channel":"webhook","recipient":"ann","address":{"url":%q}}`, hooks.URL)},
	} {
		if status, answer, _ := ask(t, q[0], base+q[1], q[2]); status >= 300 {
			t.Fatalf("%s %s: %d %s", q[0], q[1], status, answer)
		}
	}

	const overHTTP = 4 // publishes on one connection: another server takes it over after the first request
	carry := &traced{next: &http.Transport{MaxConnsPerHost: 1}}
	t.Cleanup(func() { carry.next.(*http.Transport).CloseIdleConnections() })
	client, err := godwit.New(base, godwit.WithAPIKey("dev"), godwit.WithHTTPClient(&http.Client{Transport: carry}))
	if err != nil {
		t.Fatal(err)
	}
	steps := []godwit.Step{{Channel: "live"}, {Channel: "webhook"}}
	var ids []string
	for n := range overHTTP {
		_, carry.parent = trace(n)
		p := godwit.Publication{To: "ann", ID: fmt.Sprintf("n%d", n), Title: "Hi", Escalate: steps}
		if _, err := client.Publish(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.ID)
	}
	client.Close()
	overGRPC(t, a, "n4")
	ids = append(ids, "n4")
	for n := range ids {
		id, _ := trace(n)
		collector.Until(t, id, "publish demo", "commit", "push webhook")
	}

	stop(t, a)
	a = start(t, cfg)
	base = "http://" + a.Addresses().HTTP
	received(t, base, ids)
	if status, answer, _ := ask(t, "POST", base+"/v1/acks?app=demo&recipient=ann", `{"ids":["`+strings.Join(ids, `","`)+`"]}`); status != http.StatusOK || !strings.Contains(answer, "5") {
		t.Fatalf("acknowledge: %d %s", status, answer)
	}
	for n := range ids {
		id, _ := trace(n)
		spans := collector.Until(t, id, "publish demo", "commit", "push webhook", "deliver demo", "ack demo", "hook crm")
		publish := spans[slices.IndexFunc(spans, func(s *tracepb.Span) bool { return s.GetName() == "publish demo" })]
		if hex.EncodeToString(publish.GetParentSpanId()) != publisherSpan {
			t.Errorf("publish %d hangs from %x", n, publish.GetParentSpanId())
		}
		for _, s := range spans {
			if s != publish && string(s.GetParentSpanId()) != string(publish.GetSpanId()) && s.GetName() != "commit" {
				t.Errorf("%s of publish %d hangs from %x", s.GetName(), n, s.GetParentSpanId())
			}
		}
	}
}

// overGRPC publishes to ann with a trace in the call's metadata.
func overGRPC(t *testing.T, a *app.App, id string) {
	t.Helper()
	conn, err := grpc.NewClient(a.Addresses().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, parent := trace(4)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer dev", "traceparent", parent)
	_, err = godwitpb.NewPublisherClient(conn).Publish(ctx, &godwitpb.PublishRequest{
		To: []string{"ann"}, Id: id, Title: "Hi", Escalate: []*godwitpb.EscalationStep{{Channel: "live"}, {Channel: "webhook"}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// received connects as ann and waits for all notifications.
func received(t *testing.T, base string, ids []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/stream?app=demo&recipient=ann", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	missing := slices.Clone(ids)
	for lines := bufio.NewScanner(resp.Body); len(missing) > 0; {
		if !lines.Scan() {
			t.Fatalf("the stream ended before %q had come: %v", missing, lines.Err())
		}
		missing = slices.DeleteFunc(missing, func(id string) bool { return strings.Contains(lines.Text(), `"id":"`+id+`"`) })
	}
}
