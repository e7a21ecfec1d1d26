package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestRequestsAreCountedByRouteAndClass(t *testing.T) {
	reg := New("1.2.3")
	r := NewHTTP(reg).Route("GET /x")
	for _, status := range []int{200, 201, 404, 503, 0, 700} {
		r.Observe(status, time.Millisecond)
	}
	got := map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "godwit_http_requests_total" {
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	for class, want := range map[string]float64{"1xx": 1, "2xx": 2, "3xx": 0, "4xx": 1, "5xx": 2} {
		if got[class] != want {
			t.Errorf("%s counted %v times, want %v", class, got[class], want)
		}
	}
}

func TestRegistriesAreIndependent(t *testing.T) {
	for range 2 { // a second server in one process must not collide with the first
		var reg prometheus.Registerer = New("test")
		NewHTTP(reg)
	}
}
