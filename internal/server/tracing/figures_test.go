package tracing_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/server/tracing"
)

// figures returns from the metrics how many spans were sent, failed and dropped.
func figures(t *testing.T, tr *tracing.Tracer) map[string]float64 {
	t.Helper()
	return outcomes(t, tr, "godwit_trace_spans_total")
}

// outcomes returns the values of a metric by its only label.
func outcomes(t *testing.T, of prometheus.Collector, name string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(of)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return got
}
