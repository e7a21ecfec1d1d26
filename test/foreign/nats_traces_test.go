package foreign

import (
	"context"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/server/tracing/tracetest"
	"godwit.dev/godwit/test/blackbox"
)

const callerSpan = "00f067aa0ba902b7"

// traceOf makes the id of a trace, and the traceparent with which a caller sends it.
func traceOf(n string) (id, traceparent string) {
	id = strings.Repeat(n, 32)
	return id, "00-" + id + "-" + callerSpan + "-01"
}

// spanIn returns a span's id, and checks that it hangs from another.
func spanIn(t *testing.T, spans []*tracepb.Span, name, parent string) string {
	t.Helper()
	i := slices.IndexFunc(spans, func(s *tracepb.Span) bool {
		return s.GetName() == name && hex.EncodeToString(s.GetParentSpanId()) == parent
	})
	if i < 0 {
		t.Fatalf("there is no span %s below %s: %v", name, parent, spans)
	}
	return hex.EncodeToString(spans[i].GetSpanId())
}

// TestTracesLeadThroughTopicsRequestsAndTheGateway: each trace continues the caller's, and what receivers get continues the server's spans.
// The caller of one message is a NATS client, and so is one of the workers.
func TestTracesLeadThroughTopicsRequestsAndTheGateway(t *testing.T) {
	t.Parallel()
	collector := tracetest.Start(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--nats-addr", "127.0.0.1:0", "--otlp", collector.URL))
	nc, err := nats.Connect("nats://"+natsAddress(t, server), nats.Token("dev"), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	rides, err := nc.SubscribeSync("godwit.demo.t.rides.*")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 8) // traceparents that workers get
	if _, err := nc.Subscribe("godwit.demo.r.py.>", func(m *nats.Msg) {
		seen <- m.Header.Get("Traceparent")
		_ = m.Respond([]byte("from NATS")) // the caller reports what is lost
	}); err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	client, err := godwit.New(server.URL(""), godwit.WithAPIKey("dev"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	news := godwit.NewTopics(func(context.Context, *godwit.Message) {})
	if err := news.Subscribe("rides.*"); err != nil {
		t.Fatal(err)
	}
	serving := make(chan struct{})
	ctx, stop := context.WithCancel(timeout(t))
	defer stop()
	go func() {
		_ = client.Serve(ctx, "worker", []string{"orders.>"}, func(_ context.Context, r *godwit.Request) (*godwit.Answer, error) {
			seen <- r.Header.Get("Traceparent")
			return &godwit.Answer{Status: http.StatusTeapot}, nil
		}, godwit.Subscriptions(news), godwit.OnServing(func() { close(serving) }))
	}()
	<-serving
	if err := news.Active(ctx); err != nil {
		t.Fatal(err)
	}
	send := func(path, traceparent string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL(path), strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer dev")
		req.Header.Set("Traceparent", traceparent)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Fatalf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}

	id, parent := traceOf("1")
	send("/v1/topics/rides.oslo", parent, http.StatusAccepted)
	spans := collector.Until(t, id, "publish demo", "deliver demo")
	publish := spanIn(t, spans, "publish demo", callerSpan)
	spanIn(t, spans, "deliver demo", publish)
	if m, err := rides.NextMsg(blackbox.Patience); err != nil || m.Header.Get("traceparent") != "00-"+id+"-"+publish+"-01" {
		t.Errorf("the NATS client gets %+v, %v; want the span of the publish", m, err)
	}

	id, parent = traceOf("2")
	if err := nc.PublishMsg(&nats.Msg{Subject: "godwit.demo.t.rides.oslo", Header: nats.Header{"traceparent": {parent}}}); err != nil {
		t.Fatal(err)
	}
	spanIn(t, collector.Until(t, id, "deliver demo"), "deliver demo", callerSpan)

	id, parent = traceOf("3")
	send("/gw/orders/17", parent, http.StatusTeapot)
	spans = collector.Until(t, id, "gateway orders", "request demo", "answer demo")
	answer := spanIn(t, spans, "answer demo", spanIn(t, spans, "request demo", spanIn(t, spans, "gateway orders", callerSpan)))
	if got := <-seen; got != "00-"+id+"-"+answer+"-01" {
		t.Errorf("the worker gets %s, want the span of its answer", got)
	}

	id, parent = traceOf("4")
	send("/v1/requests/py.x", parent, http.StatusOK)
	request := spanIn(t, collector.Until(t, id, "request demo"), "request demo", callerSpan)
	if got := <-seen; got != "00-"+id+"-"+request+"-01" {
		t.Errorf("the NATS worker gets %s, want the span of the request", got)
	}

	id, parent = traceOf("5")
	send("/v1/requests/nobody", parent, http.StatusServiceUnavailable)
	for _, s := range collector.Until(t, id, "request demo") {
		if s.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
			t.Errorf("a request that nobody answers has the status %v", s.GetStatus())
		}
	}

	_, parent = traceOf("6")
	send("/v1/requests/py.x", strings.TrimSuffix(parent, "1")+"0", http.StatusOK)
	if got := <-seen; got != strings.TrimSuffix(parent, "1")+"0" {
		t.Errorf("a request that its caller does not sample has the trace context %s", got)
	}
}
