package session

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
)

// A notification's time counts from when it was due. It is recorded once for each notification, however often that is written.
func TestMetricsTellDeliveryAndAckLatency(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publish("anna", "n1")
		w.publish("anna", "later", func(n *notification.Notification) { n.SendAt = n.CreatedAt.Add(time.Second) })
		time.Sleep(2 * time.Second)
		c := w.connect(frame.Hello{App: "demo", Recipient: "anna", Device: "phone"})
		time.Sleep(20 * time.Second) // both are written once more
		c.ack("n1")
		c.ack("later")
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(w.hub)
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float64{"godwit_notification_delivered_seconds": 2 + 1, "godwit_notification_acked_seconds": 22 + 21} {
			found := false
			for _, f := range families {
				if f.GetName() != name {
					continue
				}
				found = true
				one := f.GetMetric()[0]
				if l := one.GetLabel()[0]; l.GetName() != "channel" || l.GetValue() != "live" {
					t.Errorf("%s is labelled %s=%s", name, l.GetName(), l.GetValue())
				}
				if h := one.GetHistogram(); h.GetSampleCount() != 2 || h.GetSampleSum() < want-0.01 || h.GetSampleSum() > want+0.01 {
					t.Errorf("%s has %d, together %v s; want 2, %v s", name, h.GetSampleCount(), h.GetSampleSum(), want)
				}
			}
			if !found {
				t.Errorf("there is no %s", name)
			}
		}
	})
}
