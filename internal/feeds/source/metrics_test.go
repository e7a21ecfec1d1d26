package source_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/feeds/source"
)

func TestMetricsShowHowFarTheFurthestSourceOfAKindIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lags := map[string]source.Lag{"a": {Bytes: 7, Entries: 1, Time: time.Second}, "b": {Bytes: 5, Entries: 9, Time: time.Minute}}
		k := &script{run: func(ctx context.Context, target source.Target, e source.Emitter) error {
			e.Caught(ctx)
			e.Lag(lags[target.Name])
			return e.SetAside(ctx, &source.Entry{Text: []byte("x")}, context.Canceled)
		}}
		s, _ := running(t, k, &sinkhole{}, "a")
		one, err := s.Get("shop", "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Set(t.Context(), "shop", "b", source.Change{Kind: "script", Values: one.Values}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(s)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]float64)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := f.GetName()
				for _, label := range m.GetLabel() {
					name += " " + label.GetValue()
				}
				got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		for name, want := range map[string]float64{
			"godwit_source_lag_bytes script": 7, "godwit_source_lag_entries script": 9, "godwit_source_lag_seconds script": 60,
			"godwit_sources script running": 2, "godwit_source_entries_total quarantined script": 2,
		} {
			if got[name] != want {
				t.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}
	})
}
