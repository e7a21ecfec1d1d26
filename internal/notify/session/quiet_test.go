package session

import (
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
)

// A client whose protocol sends nothing twice on one connection gets a notification again after a nack, and on its next connection.
func TestQuietSessionRepeatsOnlyAfterANack(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: 24 * time.Hour, Quiet: true})
		w.publish("anna", "n1")
		w.publish("anna", "n2")
		w.expect(c, "welcome", "notification n1", "notification n2")
		time.Sleep(time.Hour)
		w.expect(c)
		c.nack(time.Second, "n1")
		time.Sleep(2 * time.Second)
		w.expect(c, "notification n1 again")
		time.Sleep(time.Hour)
		w.expect(c)
		c.s.Closed()
		again := w.connect(frame.Hello{Recipient: "anna", Quiet: true})
		w.expect(again, "welcome", "notification n1", "notification n2")
	})
}

// A client may choose while it is connected that it acknowledges nothing, and the other way round.
func TestClientChoosesWhetherItAcknowledges(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Window: 1})
		c.s.Once(true)
		for _, id := range []string{"n1", "n2"} {
			w.publish("anna", id)
		}
		w.expect(c, "welcome", "notification n1", "notification n2")
		c.s.Once(false)
		for _, id := range []string{"n3", "n4"} {
			w.publish("anna", id)
		}
		w.expect(c, "notification n3")
		c.ack("n3")
		w.expect(c, "notification n4")
	})
}
