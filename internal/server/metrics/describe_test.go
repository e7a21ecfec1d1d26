package metrics_test

import (
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/server/metrics"
)

func TestMetricsAreDescribedBeforeTheyHaveValues(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "b_total", Help: `Says "b", and a \.`, ConstLabels: prometheus.Labels{"to": "a, b"}}, []string{"z", "channel"}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "a"}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "c", ConstLabels: prometheus.Labels{"why": "rate"}}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "c", ConstLabels: prometheus.Labels{"why": "files"}}),
	)
	want := []metrics.Described{
		{Name: "a"},
		{Name: "b_total", Help: `Says "b", and a \.`, Labels: []string{"channel", "to", "z"}},
		{Name: "c", Labels: []string{"why"}},
	}
	if got := metrics.Describe(reg.Describe); !reflect.DeepEqual(got, want) {
		t.Errorf("described are %+v, want %+v", got, want)
	}
}
