package tracing_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	collectpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/server/tracing/tracetest"
)

// reader is an exporter that records the counters in reports.
type reader struct {
	metric.Exporter // nil: the exporter's preferences are not used
	mu              sync.Mutex
	reports         []map[string]float64
	asked           int
	err             error
	mute            bool // it does not answer
	closed          bool
}

func (r *reader) Export(ctx context.Context, of *metricdata.ResourceMetrics) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.mute {
		r.mu.Unlock()
		<-ctx.Done()
		r.mu.Lock()
		return context.Cause(ctx)
	}
	if r.err != nil {
		return r.err
	}
	counters := map[string]float64{}
	for _, scope := range of.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[float64]); ok && len(sum.DataPoints) == 1 {
				counters[m.Name] = sum.DataPoints[0].Value
			}
		}
	}
	r.reports = append(r.reports, counters)
	return nil
}

func (r *reader) Shutdown(context.Context) error { r.closed = true; return nil }

func (r *reader) set(mute bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mute, r.err = mute, err
}

// reporting starts a Reporter of a registry with one counter.
func reporting(t *testing.T, to metric.Exporter, from prometheus.Gatherer) (log *bytes.Buffer, said func(outcome string) float64, stop func(patience time.Duration)) {
	t.Helper()
	log = &bytes.Buffer{}
	r, err := tracing.NewReporter(t.Context(), tracing.ReporterConfig{Exporter: to, Figures: from, Version: "1", Node: "n1", Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	said = func(outcome string) float64 { return outcomes(t, r, "godwit_otlp_reports_total")[outcome] }
	return log, said, func(patience time.Duration) {
		cancel()
		<-done
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func counting() (*prometheus.Registry, prometheus.Counter) {
	registry := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "things_total", Help: "Things."})
	registry.MustRegister(c)
	return registry, c
}

func TestFiguresAreReportedEachMinuteAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &reader{}
		registry, things := counting()
		log, said, stop := reporting(t, to, registry)
		for range 2 {
			things.Inc()
			time.Sleep(61 * time.Second)
		}
		synctest.Wait()
		things.Inc()
		if n := said("sent"); n != 2 {
			t.Errorf("%v reports in two minutes", n)
		}
		stop(time.Second)
		if len(to.reports) != 3 || !to.closed {
			t.Fatalf("reports %v, closed: %v", to.reports, to.closed)
		}
		for i, r := range to.reports {
			if r["things_total"] != float64(i+1) {
				t.Errorf("report %d has %v", i, r)
			}
		}
		if log.Len() > 0 {
			t.Errorf("the log says %s", log)
		}
	})
}

func TestTheEnvironmentSaysHowOftenFiguresAreReported(t *testing.T) {
	for value, want := range map[string]int{"10000": 12, "999": 2, "a while": 2, "86400001": 2} {
		t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", value)
		synctest.Test(t, func(t *testing.T) {
			to := &reader{}
			registry, _ := counting()
			log, _, stop := reporting(t, to, registry)
			time.Sleep(2*time.Minute + time.Second)
			synctest.Wait()
			if n := len(to.reports); n != want {
				t.Errorf("%q: %d reports in two minutes", value, n)
			}
			if told := strings.Contains(log.String(), "OTEL_METRIC_EXPORT_INTERVAL"); told != (want == 2) {
				t.Errorf("%q: the log says %s", value, log)
			}
			stop(time.Second)
		})
	}
}

func TestACollectorThatTakesNoFiguresIsToldOnceAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &reader{err: syscall.ECONNREFUSED}
		registry, things := counting()
		log, said, stop := reporting(t, to, registry)
		time.Sleep(2*time.Minute + time.Second)
		to.set(true, nil) // the collector is up, but does not answer
		time.Sleep(2*time.Minute + 30*time.Second)
		synctest.Wait()
		if n := said("failed"); n != 4 || to.asked != 4 {
			t.Errorf("%v failed, %d were asked for", n, to.asked)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "connection refused") {
			t.Errorf("the log says %d times: %s", n, log)
		}
		things.Inc()
		to.set(false, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "figures are sent again"); n != 1 || to.reports[0]["things_total"] != 1 {
			t.Errorf("it took %v, and the log says %s", to.reports, log)
		}
		stop(time.Second)
	})
}

func TestAStopWaitsForNoCollectorThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &reader{mute: true}
		registry, _ := counting()
		log, said, stop := reporting(t, to, registry)
		time.Sleep(time.Minute + time.Second) // a report is under way
		begun := time.Now()
		stop(2 * time.Second)
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
		if n := said("failed"); n != 1 || strings.Count(log.String(), "level=WARN") != 1 {
			t.Errorf("%v failed, and the log says %s", n, log)
		}
	})
}

// twice is a collector that reports a value twice, which a registry refuses.
type twice struct{ prometheus.Gauge }

func (d twice) Collect(ch chan<- prometheus.Metric) { d.Gauge.Collect(ch); d.Gauge.Collect(ch) }

func TestFiguresThatCannotBeGatheredKeepNoOthersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &reader{}
		registry, things := counting()
		registry.MustRegister(twice{prometheus.NewGauge(prometheus.GaugeOpts{Name: "broken"})})
		log, _, stop := reporting(t, to, registry)
		things.Inc()
		time.Sleep(3*time.Minute + time.Second)
		stop(time.Second)
		if len(to.reports) != 4 || to.reports[3]["things_total"] != 1 {
			t.Errorf("reports %v", to.reports)
		}
		if strings.Count(log.String(), "broken") != 1 {
			t.Errorf("the log says %s", log)
		}
	})
}

func TestEnvironmentTurnsTracingOff(t *testing.T) {
	for _, c := range []struct {
		setting         string
		env             map[string]string
		traces, figures bool
	}{
		{},
		{setting: "http://collector:4318", traces: true, figures: true},
		{env: map[string]string{"ENDPOINT": "http://collector:4318"}, traces: true, figures: true},
		{env: map[string]string{"OTLP_TRACES": "http://collector:4318/v1/traces"}, traces: true},
		{env: map[string]string{"OTLP_METRICS": "http://collector:4318/v1/metrics"}, figures: true},
		{setting: "http://collector:4318", env: map[string]string{"METRICS": "none"}, traces: true},
		{setting: "http://collector:4318", env: map[string]string{"TRACES": "none"}, figures: true},
		{setting: "http://collector:4318", env: map[string]string{"METRICS": "prometheus"}, traces: true},
		{setting: "http://collector:4318", env: map[string]string{"METRICS": "prometheus, otlp", "TRACES": "otlp"}, traces: true, figures: true},
		{setting: "http://collector:4318", env: map[string]string{"DISABLED": "True"}},
	} {
		for short, name := range map[string]string{
			"ENDPOINT": "OTEL_EXPORTER_OTLP_ENDPOINT", "OTLP_TRACES": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTLP_METRICS": "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
			"TRACES": "OTEL_TRACES_EXPORTER", "METRICS": "OTEL_METRICS_EXPORTER", "DISABLED": "OTEL_SDK_DISABLED",
		} {
			t.Setenv(name, c.env[short])
		}
		if traces, figures := tracing.WantsTraces(c.setting), tracing.WantsFigures(c.setting); traces != c.traces || figures != c.figures {
			t.Errorf("%q and %v: traces %v, figures %v", c.setting, c.env, traces, figures)
		}
	}
}

// report sends one report over HTTP to a collector.
func report(t *testing.T, url string, from prometheus.Gatherer) (log string, said func(outcome string) float64) {
	t.Helper()
	to, err := tracing.FigureExporter(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	lines, said, stop := reporting(t, to, from)
	stop(time.Minute)
	return lines.String(), said
}

func TestEachKindOfFigureIsReported(t *testing.T) {
	collector := tracetest.Start(t)
	registry, things := counting()
	things.Add(3)
	size := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "size", Buckets: []float64{.1, 1, 10}}, []string{"of"})
	for _, v := range []float64{.05, .5, .7, 100} {
		size.WithLabelValues("a").Observe(v)
	}
	free := prometheus.NewGauge(prometheus.GaugeOpts{Name: "free"})
	free.Set(-1.5)
	pause := prometheus.NewSummary(prometheus.SummaryOpts{Name: "pause", Objectives: map[float64]float64{.5: .01}})
	pause.Observe(7)
	registry.MustRegister(size, free, pause)
	log, said := report(t, collector.URL+"/", registry)
	if said("sent") != 1 {
		t.Fatalf("nothing was sent: %s", log)
	}
	got := collector.Reported(t, func(*tracetest.Report) bool { return true })
	for name, want := range tracetest.Lines(t, `
things_total 3
size_bucket{of="a",le="0.1"} 1
size_bucket{of="a",le="1"} 3
size_bucket{of="a",le="10"} 3
size_bucket{of="a",le="+Inf"} 4
size_sum{of="a"} 101.25
size_count{of="a"} 4
free -1.5
pause{quantile="0.5"} 7
pause_sum 7
pause_count 1
`) {
		if v, ok := got.Figures[name]; v != want || !ok {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if len(got.Figures) != 11 || got.Of["service.name"] != "godwit" || got.Of["service.version"] != "1" || got.Of["service.instance.id"] != "n1" {
		t.Errorf("report %+v", got)
	}
}

func TestFiguresThatTheCollectorRefusesAreCounted(t *testing.T) {
	registry, _ := counting()
	for name, answer := range map[string]http.HandlerFunc{
		"all": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "who are you? "+strings.Repeat("x", 1<<20), http.StatusForbidden)
		},
		"some": func(w http.ResponseWriter, _ *http.Request) {
			b, err := proto.Marshal(&collectpb.ExportMetricsServiceResponse{PartialSuccess: &collectpb.ExportMetricsPartialSuccess{RejectedDataPoints: 1, ErrorMessage: "too old"}})
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(b)
		},
	} {
		collector := httptest.NewServer(answer)
		log, said := report(t, collector.URL, registry)
		collector.Close()
		if said("failed") != 1 || said("sent") != 0 || strings.Count(log, "level=WARN") != 1 || len(log) > 8<<10 {
			t.Errorf("%s refused: %v failed, %v sent, and the log says %.300s", name, said("failed"), said("sent"), log)
		}
	}
}

// TestWordsOfACollectorReachNoLog makes a collector repeat the secret that it receives, in every part of its answer.
func TestWordsOfACollectorReachNoLog(t *testing.T) {
	const secret = "tell-nobody-4711"
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization="+secret)
	for name, c := range map[string]struct{ answer, want string }{
		"refused":      {"HTTP/1.1 401 " + secret + "\r\nX: " + secret + "\r\nContent-Length: 16\r\n\r\n" + secret, "the collector answered 401"},
		"status line":  {"HTTP/1.1 " + secret + "\r\n\r\n", "cannot be reached"},
		"header":       {"HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n", "cannot be reached"},
		"redirect":     {"HTTP/1.1 302 Found\r\nLocation: http://%zz/" + secret + "\r\nContent-Length: 0\r\n\r\n", "the collector"},
		"elsewhere":    {"HTTP/1.1 302 Found\r\nLocation: http://" + secret + ".invalid/\r\nContent-Length: 0\r\n\r\n", "the collector answered 302"},
		"moved":        {"HTTP/1.1 308 Moved\r\nLocation: http://" + secret + ".invalid/\r\nContent-Length: 0\r\n\r\n", "the collector answered 308"},
		"cut off":      {"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nContent-Type: application/x-protobuf\r\n\r\n" + secret, "the collector"},
		"not protobuf": {"HTTP/1.1 200 OK\r\nContent-Length: 16\r\nContent-Type: application/x-protobuf\r\n\r\n" + secret, "the collector"},
	} {
		collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, c.answer)
		}))
		registry, _ := counting()
		log, said := report(t, collector.URL+"/secret-path", registry)
		if said("failed") != 1 || strings.Contains(log, secret) || strings.Contains(log, "secret-path") || !strings.Contains(log, c.want) {
			t.Errorf("figures, %s: %s", name, log)
		}
		to, err := tracing.Exporter(t.Context(), collector.URL+"/secret-path")
		if err != nil {
			t.Fatal(err)
		}
		var lines strings.Builder
		tr, err := tracing.New(t.Context(), tracing.Config{Exporter: to, Log: slog.New(slog.NewTextHandler(&lines, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = tr.Run(ctx) }()
		publish(tr, "n", asked, "ann")
		cancel()
		<-done
		if err := tr.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if log := lines.String(); strings.Contains(log, secret) || strings.Contains(log, "secret-path") || !strings.Contains(log, c.want) {
			t.Errorf("traces, %s: %s", name, log)
		}
		collector.Close()
	}
}

func TestACollectorsURLIsCheckedAndNeverToldWithAPassword(t *testing.T) {
	for _, url := range []string{"http://me:sekret@collector:4318", "http://collector:4318/#", "http://collector:4318?", "http://me:sekret@collector:port", "ftp://collector", "collector:4318", "http://"} {
		for what, make := range map[string]func() error{
			"traces":  func() error { _, err := tracing.Exporter(t.Context(), url); return err },
			"figures": func() error { _, err := tracing.FigureExporter(t.Context(), url); return err },
		} {
			if err := make(); err == nil || strings.Contains(err.Error(), "sekret") || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_HEADERS") && !strings.Contains(err.Error(), "like http://") && !strings.Contains(err.Error(), "before ? and #") {
				t.Errorf("%s to %s: %v", what, url, err)
			}
		}
	}
}
