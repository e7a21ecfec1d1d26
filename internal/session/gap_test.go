package session

import (
	"testing"

	"godwit.dev/godwit/internal/frame"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
)

func TestANotificationRoutedAcrossAGapWaitsForTheOneBefore(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome")
		w.mail.mu.Lock() // stored, but its routing is lost
		w.mail.pos, w.mail.seqs["anna"] = 1, 1
		w.mail.items["anna"] = []mailbox.Item{{Pos: 1, Recipient: "anna", Seq: 1, N: &notification.Notification{App: "demo", ID: "n1"}}}
		w.mail.mu.Unlock()
		w.mail.publish(&notification.Notification{App: "demo", ID: "n2"}, "anna")
		w.expect(c, "notification n1", "notification n2")
	})
}
