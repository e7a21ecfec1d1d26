package session

import (
	"testing"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
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

// TestNotificationsAfterStoreRollbackArriveAtOnce: after a failover to a replica that lacks the last commits, the store assigns numbers
// again that a session knows already.
func TestNotificationsAfterStoreRollbackArriveAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		anna, carl := w.connect(frame.Hello{Recipient: "anna"}), w.connect(frame.Hello{Recipient: "anna", Token: "peek"})
		for _, c := range []*wire{anna, carl} {
			w.expect(c, "welcome")
		}
		for _, id := range []string{"n1", "lost2", "lost3", "lost4"} {
			w.publish("anna", id)
			w.expect(anna, "notification "+id)
			w.expect(carl, "notification "+id)
		}
		anna.ack("n1", "lost2")
		anna.got()
		w.mail.goBack("anna", 1)
		w.publish("anna", "n2")
		w.expect(anna, "notification n2")
		w.expect(carl, "notification n2")
		w.publish("anna", "n3")
		w.expect(anna, "notification n3")
		w.expect(carl, "notification n3")
		reads, _ := w.mail.asked()
		w.publish("anna", "n4")
		w.expect(anna, "notification n4")
		w.expect(carl, "notification n4")
		if now, _ := w.mail.asked(); now != reads {
			t.Error("sessions read again what the store had given back before")
		}
	})
}

func TestABehindSessionDoesNotWaitForWhatTheStoreNoLongerHas(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Window: 1})
		w.expect(c, "welcome")
		for _, id := range []string{"n1", "lost2", "lost3"} {
			w.publish("anna", id)
		}
		w.expect(c, "notification n1")
		w.mail.goBack("anna", 1)
		c.ack("n1")
		c.got()
		w.publish("anna", "n2")
		w.expect(c, "notification n2")
		c.ack("n2")
		c.got()
		if reads, _ := w.mail.asked(); reads > 10 {
			t.Errorf("it read %d times", reads)
		}
	})
}

func TestRouteAfterReadCausesNoSecondRead(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome")
		w.mail.lose("anna", "n1")
		w.publish("anna", "n2")
		w.expect(c, "notification n1", "notification n2")
		reads, _ := w.mail.asked()
		w.mail.routeAgain("anna")
		c.ack("n1")
		w.mail.routeAgain("anna")
		w.expect(c)
		if now, _ := w.mail.asked(); now != reads {
			t.Error("the session read what it has")
		}
	})
}
