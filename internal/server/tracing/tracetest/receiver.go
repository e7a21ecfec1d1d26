// Package tracetest is shared by tests of traces and figures: a collector that receives them over OTLP.
package tracetest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	metricscollectpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const patience = time.Minute

// Receiver receives traces and figures as a collector does.
type Receiver struct {
	*httptest.Server
	mu      sync.Mutex
	spans   map[string][]*tracepb.Span // by trace
	report  *Report                    // the last one, or nil
	reports int
	news    chan struct{}
}

// Start starts a Receiver for the duration of a test.
func Start(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{spans: map[string][]*tracepb.Span{}, news: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, q *http.Request) {
		var got collectpb.ExportTraceServiceRequest
		r.take(w, q, &got, func() { r.addSpans(&got) })
	})
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, q *http.Request) {
		var got metricscollectpb.ExportMetricsServiceRequest
		r.take(w, q, &got, func() {
			r.reports++
			r.report = read(&got, r.reports)
		})
	})
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	return r
}

// take reads a request and calls note under the lock.
func (r *Receiver) take(w http.ResponseWriter, q *http.Request, into proto.Message, note func()) {
	in := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if in, err = gzip.NewReader(in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	b, err := io.ReadAll(in)
	if err == nil {
		err = proto.Unmarshal(b, into)
	}
	if err != nil {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	note()
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (r *Receiver) addSpans(got *collectpb.ExportTraceServiceRequest) {
	for _, of := range got.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				id := hex.EncodeToString(s.GetTraceId())
				r.spans[id] = append(r.spans[id], s)
			}
		}
	}
}

// Until waits for the spans of a trace, and returns them.
func (r *Receiver) Until(t testing.TB, trace string, names ...string) []*tracepb.Span {
	t.Helper()
	late := time.After(patience)
	for {
		r.mu.Lock()
		spans := slices.Clone(r.spans[trace])
		r.mu.Unlock()
		var got []string
		for _, s := range spans {
			got = append(got, s.GetName())
		}
		if !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(got, name) }) {
			return spans
		}
		select {
		case <-r.news:
		case <-late:
			t.Fatalf("trace %s has the spans %q, want %q", trace, got, names)
		}
	}
}
