// Package tracetest has what tests of traces share: a collector that takes them over OTLP.
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

	collectpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver takes traces as a collector does.
type Receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans map[string][]*tracepb.Span // by trace
	news  chan struct{}
}

// Start starts one for as long as a test runs.
func Start(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{spans: map[string][]*tracepb.Span{}, news: make(chan struct{}, 1)}
	r.Server = httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(r.Close)
	return r
}

func (r *Receiver) take(w http.ResponseWriter, q *http.Request) {
	in := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if in, err = gzip.NewReader(in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	var got collectpb.ExportTraceServiceRequest
	b, err := io.ReadAll(in)
	if err == nil {
		err = proto.Unmarshal(b, &got)
	}
	if err != nil || q.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	for _, of := range got.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				id := hex.EncodeToString(s.GetTraceId())
				r.spans[id] = append(r.spans[id], s)
			}
		}
	}
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Until waits for the spans of a trace, and returns them.
func (r *Receiver) Until(t testing.TB, trace string, names ...string) []*tracepb.Span {
	t.Helper()
	const patience = time.Minute
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
