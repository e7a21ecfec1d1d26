package pubsub

import (
	"slices"
	"testing"

	"godwit.dev/godwit/internal/notify/frame"
)

func TestSubscriptionsAreCountedByPatternAndQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		look := func(most int, want ...Subscription) {
			t.Helper()
			got, all := w.svc.Subscriptions(app, most)
			if !slices.Equal(got, want[:min(most, len(want))]) || all != len(want) {
				t.Errorf("%d are %+v, want %+v", all, got, want)
			}
		}
		look(10)
		a, b := w.connect(), w.connect()
		a.subscribe("rides.*")
		b.subscribe("rides.*", "x")
		a.say(frame.KindSubscribe, "q", "rides.*")
		w.publish("rides.oslo", "rides.oslo")
		look(10, Subscription{"rides.*", "", 2, 2}, Subscription{"rides.*", "q", 1, 2}, Subscription{"x", "", 1, 0})
		look(1, Subscription{"rides.*", "", 2, 2}, Subscription{"rides.*", "q", 1, 2}, Subscription{"x", "", 1, 0})
		if got, _ := w.svc.Subscriptions("other", 10); len(got) != 0 {
			t.Errorf("another app sees %+v", got)
		}
		a.say(frame.KindUnsubscribe, "q", "rides.*")
		b.unsubscribe("x")
		look(10, Subscription{"rides.*", "", 2, 2})
		w.bus.down = true
		a.subscribe("never")
		look(10, Subscription{"rides.*", "", 2, 2})
		a.part.Closed()
		b.part.Closed()
		look(10)
	})
}
