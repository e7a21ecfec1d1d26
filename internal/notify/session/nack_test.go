package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

func TestNackFreesWindowForNextNotification(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		var bad []string
		for i := range defaultWindow {
			bad = append(bad, fmt.Sprint("bad", i))
			w.publish("anna", bad[i])
		}
		w.publish("anna", "good")
		if got := c.got(); len(got) != 1+defaultWindow || slices.Contains(got, "notification good") {
			t.Fatalf("got %q, want a window full", got)
		}
		c.nack(time.Minute, bad...)
		w.expect(c, "notification good")
		c.ack("good")
		time.Sleep(time.Minute - time.Second)
		w.expect(c)
		time.Sleep(2 * time.Second)
		if got := c.got(); len(got) != defaultWindow || got[0] != "notification bad0 again" {
			t.Fatalf("after its time came %d: %q", len(got), got)
		}
	})
}

func TestNackedNotificationReturnsWhenWindowHasRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Window: 2, Heartbeat: time.Hour})
		for _, id := range []string{"bad", "n1", "n2", "n3"} {
			w.publish("anna", id)
		}
		w.expect(c, "welcome", "notification bad", "notification n1")
		c.nack(time.Second, "bad")
		w.expect(c, "notification n2")
		time.Sleep(2 * time.Second)
		w.expect(c) // the window is full
		c.ack("n1")
		w.expect(c, "notification bad again")
		c.ack("bad", "n2")
		w.expect(c, "notification n3")
		if w := c.s.win; w.off != 0 || w.crowded {
			t.Errorf("window %+v", w)
		}
	})
}

func TestNotificationNackedTooOftenIsSetAside(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		w.publish("anna", "bad")
		w.expect(c, "welcome", "notification bad")
		for range notification.MaxNacks - 1 {
			c.nack(time.Second, "bad")
			c.nack(2*time.Second, "bad") // counts once: there was no delivery in between
			time.Sleep(3 * time.Second)
			w.expect(c, "notification bad again")
		}
		c.nack(time.Second, "bad")
		time.Sleep(time.Hour)
		w.expect(c)
		w.mail.mu.Lock()
		defer w.mail.mu.Unlock()
		if n := len(w.mail.settles); n != notification.MaxNacks {
			t.Fatalf("%d nacks reached the store, want %d", n, notification.MaxNacks)
		}
		if s := w.mail.settles[0]; !s.Nack || s.As != notification.Failed || s.Reason != "too deep" || s.Pos == 0 || s.Attempts != 1 {
			t.Errorf("the store got %+v", s)
		}
		if c.s.win != nil {
			t.Errorf("the session keeps %+v of what has failed", c.s.win)
		}
	})
}

func TestDeferredNotificationIsNeverParked(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		w.publish("anna", "n1")
		w.expect(c, "welcome", "notification n1")
		for range 3 * notification.MaxNacks {
			c.s.Frame(&frame.Client{Kind: frame.KindNack, IDs: [][]byte{[]byte("n1")}, After: time.Second})
			time.Sleep(2 * time.Second)
			w.expect(c, "notification n1 again")
		}
	})
}

func TestANackWaitsThroughAComparison(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		w.publish("anna", "n1")
		w.expect(c, "welcome", "notification n1")
		c.nack(time.Hour/2, "n1")
		w.untilCompared(c)
		w.untilCompared(c)
		w.expect(c)
		c.ack("n1") // late, but welcome
		time.Sleep(time.Hour)
		w.expect(c)
	})
}

func TestNoAckIsWrittenOnceHoweverSlowTheStore(t *testing.T) {
	inWorld(t, func(w *world) {
		none := func(n *notification.Notification) { n.Ack = notification.AckNone }
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		w.expect(c, "welcome")
		w.mail.mu.Lock()
		w.mail.held = true
		w.mail.mu.Unlock()
		w.beforeComparison(c, time.Millisecond)
		for i := range 3 {
			w.publish("anna", fmt.Sprint("n", i), none)
		}
		w.expect(c, "notification n0", "notification n1", "notification n2")
		once := func() {
			t.Helper()
			if got := c.got(); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "notification n") }) {
				t.Fatalf("came twice: %q", got)
			}
		}
		w.mail.lose("anna", "filler") // causes a read, which excludes the written notification
		for range 4 {
			w.untilCompared(c)
			once()
		}
		w.mail.mu.Lock()
		w.mail.held = false
		w.mail.mu.Unlock()
		w.untilCompared(c) // acknowledgements that the store missed are sent to it again
		w.untilCompared(c)
		once()
		c.ack("filler")
		w.mail.mu.Lock()
		left := len(w.mail.items["anna"])
		w.mail.mu.Unlock()
		if left != 0 {
			t.Errorf("%d are left unsettled", left)
		}
		w.untilCompared(c)
		w.untilCompared(c)
		if c.s.win != nil {
			t.Errorf("the session keeps %+v", c.s.win)
		}
	})
}

func TestNacksOfClientsAreNoted(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Device: "phone", Heartbeat: time.Hour})
		w.publish("anna", "one")
		c.nack(time.Minute, "one", "unknown")
		c.nack(time.Minute, "one") // a second time, for the read after a mark
		w.mail.mu.Lock()
		defer w.mail.mu.Unlock()
		if len(w.mail.said) != 1 || w.mail.said[0].What != mailbox.Nacked || w.mail.said[0].Device != "phone" || w.mail.said[0].Over != mailbox.OverOf("test", "phone") || w.mail.said[0].DeliveredAt.IsZero() {
			t.Errorf("noted %+v", w.mail.said)
		}
	})
}
