package session

import (
	"testing"
	"time"

	"godwit.dev/godwit/internal/frame"
)

func TestComparingBringsNothingBackThatWasJustAcknowledged(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		w.expect(c, "welcome")
		time.Sleep(defaultReread - time.Millisecond)
		w.mail.mu.Lock()
		w.mail.held = true // the store has not come to it when the session compares itself
		w.mail.mu.Unlock()
		w.publish("anna", "n1")
		w.expect(c, "notification n1")
		c.ack("n1")
		time.Sleep(time.Second)
		w.expect(c)
		// What the store has not taken by the next comparison it never will.
		time.Sleep(defaultReread)
		w.expect(c, "notification n1")
	})
}
