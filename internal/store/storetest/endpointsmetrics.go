package storetest

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"
)

// measured is a store of endpoints that exports metrics.
type measured interface{ EndpointMetrics() prometheus.Collector }

// endpointMetrics checks that metrics add up all apps.
func endpointMetrics(e *endpointEnv) {
	s, ok := e.s.(measured)
	if !ok {
		e.Fatal("the store has no figures")
	}
	gone := e.register("shop", chat(1), chat(2))[0]
	e.register("other", chat(1), chat(2))
	e.check(e.s.DisableEndpoint(e.Context(), gone.Number, "gone"))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(s.EndpointMetrics())
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "godwit_endpoints" {
		e.Fatalf("%v, %v", families, err)
	}
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
	}
	if want := map[string]float64{"telegram active": 3, "telegram disabled": 1}; !maps.Equal(got, want) {
		e.Errorf("figures %v, want %v", got, want)
	}
}
