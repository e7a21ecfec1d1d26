package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/tracing/tracetest"
	"godwit.dev/godwit/test/blackbox"
)

func TestATraceGoesOnAfterAKill(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	collector := tracetest.Start(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--otlp", collector.URL), blackbox.Plain())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL("/v1/notifications"), strings.NewReader(`{"to":"ann","id":"n","title":"Hi"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	req.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	client := blackbox.NewHTTPClient()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	collector.Until(t, trace, "publish demo", "commit")
	blackbox.Eventually(t, "whom to follow is kept", func() error {
		n, err := server.API().Metric(t.Context(), "godwit_trace_unsaved")
		if err == nil && n != 0 {
			err = fmt.Errorf("%v are not saved", n)
		}
		return err
	})
	server.Kill()
	if err := server.Launch(); err != nil {
		t.Fatal(err)
	}
	link, err := server.Dial(t.Context(), "ws", blackbox.Hello{Recipient: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Cut()
	if _, err := blackbox.NextNotification(t.Context(), link); err != nil {
		t.Fatal(err)
	}
	if err := link.Ack(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	collector.Until(t, trace, "deliver demo", "ack demo")
}
