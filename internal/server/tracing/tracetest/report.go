package tracetest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	collectpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// Report is a request with figures.
type Report struct {
	N int // number of the report, from 1
	// Figures maps the text before a value in a line of /metrics, name{label="value"}, to the value. A histogram has NAME_sum, NAME_count
	// and NAME_bucket, where le="…" includes the lower buckets.
	Figures map[string]float64
	Of      map[string]string // the resource's attributes
}

// Reported waits for a report that satisfies enough, and returns it.
func (r *Receiver) Reported(t testing.TB, enough func(*Report) bool) *Report {
	t.Helper()
	late := time.After(patience)
	for {
		last := r.Last()
		if last != nil && enough(last) {
			return last
		}
		select {
		case <-r.news:
		case <-late:
			if last == nil {
				t.Fatal("no figures came")
			}
			t.Fatalf("of %d reports the last, with %d figures, is not what was waited for", last.N, len(last.Figures))
		}
	}
}

// Last returns the last report, or nil.
func (r *Receiver) Last() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report
}

func read(got *collectpb.ExportMetricsServiceRequest, n int) *Report {
	to := &Report{N: n, Figures: map[string]float64{}, Of: map[string]string{}}
	for _, of := range got.GetResourceMetrics() {
		for _, a := range of.GetResource().GetAttributes() {
			to.Of[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range of.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				to.add(m)
			}
		}
	}
	return to
}

func (to *Report) add(m *metricspb.Metric) {
	for _, p := range slices.Concat(m.GetGauge().GetDataPoints(), m.GetSum().GetDataPoints()) {
		to.Figures[m.GetName()+labels(p.GetAttributes())] = p.GetAsDouble()
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		to.Figures[m.GetName()+"_sum"+labels(p.GetAttributes())] = p.GetSum()
		to.Figures[m.GetName()+"_count"+labels(p.GetAttributes())] = float64(p.GetCount())
		below := uint64(0)
		for i, bound := range append(slices.Clone(p.GetExplicitBounds()), math.Inf(1)) {
			below += p.GetBucketCounts()[i]
			to.Figures[m.GetName()+"_bucket"+labels(p.GetAttributes(), "le", strconv.FormatFloat(bound, 'g', -1, 64))] = float64(below)
		}
	}
	for _, p := range m.GetSummary().GetDataPoints() {
		to.Figures[m.GetName()+"_sum"+labels(p.GetAttributes())] = p.GetSum()
		to.Figures[m.GetName()+"_count"+labels(p.GetAttributes())] = float64(p.GetCount())
		for _, q := range p.GetQuantileValues() {
			to.Figures[m.GetName()+labels(p.GetAttributes(), "quantile", strconv.FormatFloat(q.GetQuantile(), 'g', -1, 64))] = q.GetValue()
		}
	}
}

// labels writes labels as in a line of /metrics: sorted, with last at the end.
func labels(of []*commonpb.KeyValue, last ...string) string {
	var list []string
	for _, a := range of {
		list = append(list, fmt.Sprintf("%s=%q", a.GetKey(), a.GetValue().GetStringValue()))
	}
	slices.Sort(list)
	if len(last) > 0 {
		list = append(list, fmt.Sprintf("%s=%q", last[0], last[1]))
	}
	if len(list) == 0 {
		return ""
	}
	return "{" + strings.Join(list, ",") + "}"
}

// Lines reads a page of /metrics into the form of Report.Figures.
func Lines(t testing.TB, page string) map[string]float64 {
	t.Helper()
	figures := map[string]float64{}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("a line of /metrics is %q: %v", line, err)
		}
		figures[line[:at]] = v
	}
	return figures
}
