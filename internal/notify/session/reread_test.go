package session

import (
	"fmt"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
)

func TestComparingBringsNothingBackThatWasJustAcknowledged(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		w.expect(c, "welcome")
		w.beforeComparison(c, time.Millisecond)
		w.mail.mu.Lock()
		w.mail.held = true // the store has not written the acknowledgement when the session compares itself
		w.mail.mu.Unlock()
		w.publish("anna", "n1")
		w.expect(c, "notification n1")
		c.ack("n1")
		w.untilCompared(c)
		w.expect(c)
		// An acknowledgement that the store has not written by the next comparison counts as lost.
		w.untilCompared(c)
		w.expect(c, "notification n1")
	})
}

func TestRepeatedComparisonsBringNoAcknowledgedCopyBack(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.mail.mu.Lock()
		w.mail.held = true
		w.mail.mu.Unlock()
		w.publish("anna", "n1")
		w.expect(c, "welcome", "notification n1")
		c.ack("n1")
		for range 10 { // a known notification is routed again, which shows that others may be missing
			w.hub.Reread("demo", "anna")
			w.expect(c)
			time.Sleep(100 * time.Millisecond)
		}
	})
}

func TestIdleSessionsCompareThemselvesByHeadsAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		anna := w.connect(frame.Hello{Recipient: "anna"})
		w.connect(frame.Hello{Recipient: "bert", Device: "phone"})
		w.publish("carl", "n1") // an observer never acknowledges it
		carl := w.connect(frame.Hello{Recipient: "carl", Token: "peek"})
		w.publish("anna", "n2")
		anna.ack("n2")
		anna.got()
		w.expect(carl, "welcome", "notification n1")
		reads, _ := w.mail.asked()
		time.Sleep(10 * time.Minute)
		anna.got()
		if now, looks := w.mail.asked(); now != reads || looks < 3*20 {
			t.Errorf("in ten idle minutes rows were read %d times, and heads looked at %d times by 3 sessions", now-reads, looks)
		}
	})
}

func TestComparisonsFindWhatRoutingLost(t *testing.T) {
	inWorld(t, func(w *world) {
		anna, carl := w.connect(frame.Hello{Recipient: "anna"}), w.connect(frame.Hello{Recipient: "anna", Token: "peek"})
		w.publish("anna", "n1")
		w.expect(anna, "welcome", "notification n1")
		w.expect(carl, "welcome", "notification n1")
		anna.ack("n1")
		w.mail.lose("anna", "n2")
		w.untilCompared(anna)
		w.expect(anna, "notification n2")
		w.untilCompared(carl)
		w.expect(carl, "notification n2")
	})
}

func TestComparisonsFindWhatWasSettledUntoldWhileInFlight(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.publish("anna", "n1")
		w.expect(c, "welcome", "notification n1")
		c.s.Frame(&frame.Client{Kind: frame.KindNack, IDs: [][]byte{[]byte("n1")}, After: time.Hour}) // its redelivery would find it
		w.mail.forget("anna")
		w.untilCompared(c)
		w.expect(c, "recall n1")
	})
}

func TestComparisonsGoOnFromWhatWasLostAndIsSettled(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome")
		w.mail.lose("anna", "n1")
		w.mail.forget("anna")
		w.untilCompared(c)
		reads, _ := w.mail.asked()
		w.publish("anna", "n2")
		w.expect(c, "notification n2")
		if now, _ := w.mail.asked(); now != reads {
			t.Error("the session still missed what is settled")
		}
	})
}

func TestAComparisonThatFailedIsMadeAgainSoon(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome")
		w.mail.lose("anna", "n1")
		w.mail.failing(true)
		w.untilCompared(c)
		w.expect(c)
		w.mail.failing(false)
		time.Sleep(2 * readRetry)
		w.expect(c, "notification n1")
	})
}

func TestSessionsThatConnectTogetherDoNotCompareTogether(t *testing.T) {
	inWorld(t, func(w *world) {
		const sessions = 500
		seconds := map[int]int{}
		for i := range sessions {
			c := w.connect(frame.Hello{Recipient: fmt.Sprint("r", i)})
			at := time.Duration(c.s.rereadAt-w.hub.instant()) * tick
			if at <= 0 || at > defaultReread {
				t.Fatalf("a session compares itself after %s, want within %s", at, defaultReread)
			}
			seconds[int(at/time.Second)]++
		}
		for at, n := range seconds {
			if n > sessions/5 {
				t.Errorf("%d of %d sessions compare themselves in second %d", n, sessions, at)
			}
		}
	})
}

// TestRoomThatComesDuringAReadIsUsed: a comparison that begins without room reads no further copies. Room that comes before it ends must not wait for
// the next comparison.
func TestRoomThatComesDuringAReadIsUsed(t *testing.T) {
	for name, c := range map[string]struct {
		window int
		full   bool // the transport
		room   func(c *wire)
	}{
		"in the window":    {window: 1, room: func(c *wire) { c.ack("n1") }},
		"on the transport": {full: true, room: func(c *wire) { c.fill(false); c.s.Drained() }},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				client := w.connect(frame.Hello{Recipient: "anna", Window: c.window, Heartbeat: time.Hour})
				w.publish("anna", "n1")
				w.expect(client, "welcome", "notification n1")
				client.fill(c.full)
				w.publish("anna", "n2")
				w.expect(client)
				w.mail.during = func() { c.room(client) }
				w.hub.Reread("demo", "anna")
				w.expect(client, "notification n2")
			})
		})
	}
}
