package nammayatri_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/compat/nammayatri"
)

func TestMetricsHaveTheNamesLabelsAndMeaningThatDashboardsKnow(t *testing.T) {
	m := nammayatri.NewMetrics("v7")
	w := open(t, func(c *nammayatri.Config) { c.Dev, c.Metrics = true, m })
	w.redis.publish("driver-1", "ride-1")
	s, err := w.client.StreamPayload(w.as("driver-1"))
	if err != nil {
		t.Fatal(err)
	}
	w.receive(s, "ride-1")
	minute := time.Now().Add(-time.Minute)
	m.Found("RIDE")
	m.Sent("RIDE", minute, false, "pubsub_fresh")
	m.Sent("RIDE", minute, true, "retry")
	m.Acked("RIDE", time.Now().Add(-20*time.Second))
	m.Acked("UNKNOWN", time.Time{})
	m.Expired("RIDE", true)
	m.Expired("RIDE", false)
	m.CleanupSkipped("sweep")
	m.Poisoned("N{1}", errors.New("bad"))
	w.has(
		`connected_clients 1`,
		`total_notifications{category="RIDE"} 1`,
		`delivered_notifications{category="RIDE"} 1`, `delivered_notifications{category="UNKNOWN"} 1`,
		`retried_notifications{category="RIDE"} 1`,
		`expired_notifications{category="RIDE",reason="timeout"} 1`, `expired_notifications{category="RIDE",reason="no_consumer"} 1`,
		`cleanup_push_skipped{origin="sweep"} 1`,
		`notification_duration_seconds_bucket{ack="NACK",source="pubsub_fresh",version="v7",le="30"} 0`,
		`notification_duration_seconds_bucket{ack="NACK",source="pubsub_fresh",version="v7",le="120"} 1`,
		`notification_duration_seconds_count{ack="NACK",source="retry",version="v7"} 1`,
		`notification_duration_seconds_bucket{ack="ACK",source="client",version="v7",le="15"} 0`,
		`notification_duration_seconds_bucket{ack="ACK",source="client",version="v7",le="30"} 1`,
		`notification_duration_seconds_count{ack="ACK",source="client",version="v7"} 1`,
		`# TYPE channel_delay histogram`,
		`grpc_request_duration_seconds_count{code="OK",handler="/notification_service.Notification/StreamPayload",method="POST",status_code="0",version="v7"} 1`,
	)
}

func TestCategoriesAreCountedApartUpToABound(t *testing.T) {
	m := nammayatri.NewMetrics("v7")
	w := open(t, func(c *nammayatri.Config) { c.Dev, c.Metrics = true, m })
	for i := range 300 {
		m.Found(fmt.Sprint("C", i))
	}
	m.Found("C0")
	w.has(`total_notifications{category="C0"} 2`, `total_notifications{category="OTHER"} 100`)
	if _, all := w.get("/metrics"); strings.Count(all, "\ntotal_notifications{") != 201 {
		t.Errorf("%d categories", strings.Count(all, "\ntotal_notifications{"))
	}
}
