package api

import (
	"fmt"
	"net/http"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

func TestFiguresTellDeliveriesRetriesAndExpiriesByCategory(t *testing.T) {
	t.Parallel()
	w := begin(t)
	for id, more := range map[string]map[string]any{"seen": {"to": "rider"}, "missed": {"to": "nobody", "ttl": "1s"}} {
		more["id"], more["title"], more["category"] = id, "T", "RIDE"
		w.call(http.MethodPost, "/v1/notifications", more)
	}
	for range 3 { // an unacknowledged notification is sent on each connection
		l := w.online("rider")
		for {
			f, err := l.Next(w.Context())
			if err != nil {
				t.Fatal(err)
			}
			if f.Notification != nil {
				break
			}
		}
		l.Cut()
	}
	for name, want := range map[string]float64{"stored": 2, "delivered": 1, "retried": 2, "expired": 1} {
		metric := "godwit_notifications_category_" + name + `_total{category="RIDE"`
		blackbox.Eventually(t, metric, func() error {
			if n, err := w.api.Metric(t.Context(), metric); err != nil || n != want {
				return fmt.Errorf("it is %v, want %v: %w", n, want, err)
			}
			return nil
		})
	}
}
