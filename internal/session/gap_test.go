package session

import (
	"testing"

	"godwit.dev/godwit/internal/frame"
	"godwit.dev/godwit/internal/notification"
)

func TestANotificationRoutedAcrossAGapWaitsForTheOneBefore(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome")
		w.mail.lose("anna", "n1")
		w.mail.publish(&notification.Notification{App: "demo", ID: "n2"}, "anna")
		w.expect(c, "notification n1", "notification n2")
	})
}
