package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/tracing/tracetest"
)

// told publishes three notifications to ann, who receives and acknowledges them.
func told(t *testing.T, base string) {
	t.Helper()
	var ids []string
	for n := range 3 {
		ids = append(ids, fmt.Sprintf("n%d", n))
		if status, answer, _ := ask(t, "POST", base+"/v1/notifications", fmt.Sprintf(`{"to":"ann","id":%q,"category":"NEWS","title":"Hi"}`, ids[n])); status != http.StatusCreated {
			t.Fatalf("publish: %d %s", status, answer)
		}
	}
	received(t, base, ids)
	if status, answer, _ := ask(t, "POST", base+"/v1/acks?app=demo&recipient=ann", `{"ids":["`+strings.Join(ids, `","`)+`"]}`); status != http.StatusOK {
		t.Fatalf("acknowledge: %d %s", status, answer)
	}
}

func TestACollectorGetsTheFiguresOfMetrics(t *testing.T) {
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
	collector := tracetest.Start(t)
	cfg := settings(t)
	cfg.OTLP = collector.URL
	a := start(t, cfg)
	base := "http://" + a.Addresses().HTTP
	told(t, base)
	report := collector.Reported(t, func(r *tracetest.Report) bool {
		return r.Figures[`godwit_notifications_settled_total{status="acked"}`] == 3 && r.Figures[`godwit_notification_delivered_seconds_count{channel="live"}`] == 3
	})
	status, page, _ := ask(t, "GET", base+"/metrics", "")
	if status != http.StatusOK {
		t.Fatalf("metrics: %d", status)
	}
	compared, buckets := 0, 0
	for name, want := range tracetest.Lines(t, page) {
		got, ok := report.Figures[name]
		if !ok {
			t.Errorf("the collector has not got %s", name)
		}
		if !strings.HasPrefix(name, "godwit_notification") {
			continue // it may have changed since
		}
		if compared++; strings.Contains(name, `_bucket{channel="live"`) && want > 0 {
			buckets++
		}
		if got != want {
			t.Errorf("the collector has got %s %v, and it is %v", name, got, want)
		}
	}
	if compared < 20 || buckets == 0 {
		t.Errorf("only %d figures were compared, %d of them buckets", compared, buckets)
	}
	if report.Of["service.instance.id"] == "" || report.Of["service.version"] != "test" {
		t.Errorf("the report says it is of %v", report.Of)
	}
}

// The first report is due after a minute, or when the server stops. A stop waits two seconds for the last report. A very busy machine may
// need longer: then the test tries again.
func TestTheLastFiguresAreReportedWhenTheServerStops(t *testing.T) {
	var report *tracetest.Report
	for try := 0; report == nil; try++ {
		if try == 5 {
			t.Fatal("five servers have stopped without a report")
		}
		collector := tracetest.Start(t)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
		a := start(t, settings(t))
		told(t, "http://"+a.Addresses().HTTP)
		stop(t, a)
		report = collector.Last()
	}
	for name, want := range map[string]float64{
		`godwit_notifications_settled_total{status="acked"}`: 3, `godwit_sessions`: 0, `godwit_notifications_pending`: 0,
	} {
		if got, ok := report.Figures[name]; got != want || !ok {
			t.Errorf("%s was %v at last, want %v", name, got, want)
		}
	}
	spans := 0.0
	for _, outcome := range []string{"sent", "failed", "dropped"} {
		spans += report.Figures[`godwit_trace_spans_total{outcome="`+outcome+`"}`]
	}
	if spans < 9 {
		t.Errorf("%v spans are counted, and the last were to be", spans)
	}
}

func TestNoCollectorKeepsAServerFromStopping(t *testing.T) {
	asked, over := make(chan struct{}, 16), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(over) })
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
	for _, url := range []string{silent.URL, away.URL} {
		cfg := settings(t)
		cfg.OTLP = url
		a := start(t, cfg)
		told(t, "http://"+a.Addresses().HTTP)
		if url == silent.URL {
			<-asked
		}
		stop(t, a)
	}
}

func TestOnlyWhatIsWantedIsSent(t *testing.T) {
	for off, on := range map[string]string{"OTEL_TRACES_EXPORTER": "godwit_otlp_", "OTEL_METRICS_EXPORTER": "godwit_trace_"} {
		t.Run(off, func(t *testing.T) {
			cfg := settings(t)
			cfg.OTLP = tracetest.Start(t).URL
			t.Setenv(off, "none")
			_, page, _ := ask(t, "GET", "http://"+start(t, cfg).Addresses().HTTP+"/metrics", "")
			if got := fmt.Sprint(strings.Contains(page, "\ngodwit_otlp_"), strings.Contains(page, "\ngodwit_trace_")); got != fmt.Sprint(on == "godwit_otlp_", on == "godwit_trace_") {
				t.Errorf("with %s=none reports and traces are there: %s", off, got)
			}
		})
	}
}
