package session

import (
	"strconv"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
)

// A client that cannot acknowledge gets every notification once, however many there are, and none of them is settled.
func TestOnceSessionGetsEachNotificationOnceAndSettlesNone(t *testing.T) {
	inWorld(t, func(w *world) {
		var want []string
		for i := range 5 {
			id := "n" + strconv.Itoa(i)
			w.publish("anna", id)
			want = append(want, "notification "+id)
		}
		c := w.connect(frame.Hello{Recipient: "anna", Window: 2, Once: true})
		w.expect(c, append([]string{"welcome"}, want...)...)
		w.publish("anna", "n5")
		w.expect(c, "notification n5")
		for range 4 { // a redelivery would be due, and comparisons are due
			w.untilCompared(c)
		}
		w.expect(c)
		w.mail.mu.Lock()
		settles, waiting, marks := len(w.mail.settles), len(w.mail.items["anna"]), len(w.mail.marks)
		w.mail.mu.Unlock()
		if settles != 0 || waiting != 6 || marks != 6 {
			t.Errorf("%d settles, %d still wait, %d marks; want 0, 6 and 6", settles, waiting, marks)
		}
		again := w.connect(frame.Hello{Recipient: "anna", Once: true})
		w.expect(again, append(append([]string{"welcome"}, want...), "notification n5")...)
	})
}

// A session without acknowledgements drops a notification that another session settles.
func TestOnceSessionForgetsWhatIsSettled(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Once: true})
		phone := w.connect(frame.Hello{Recipient: "anna"})
		w.publish("anna", "n1")
		w.expect(c, "welcome", "notification n1")
		w.expect(phone, "welcome", "notification n1")
		phone.ack("n1")
		w.expect(c)
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		if c.s.win != nil {
			t.Errorf("still kept: %+v", c.s.win)
		}
	})
}

func TestFirstRedeliveryAsConfigured(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hub.cfg.Redeliver = time.Second
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.publish("anna", "n1")
		w.expect(c, "welcome", "notification n1")
		for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			time.Sleep(wait + 4*tick)
			w.expect(c, "notification n1 again")
		}
	})
}
