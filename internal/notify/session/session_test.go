package session

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
)

func TestWelcomeComesFirstThenWhatIsPending(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publish("anna", "n1")
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome", "notification n1")
		w.publish("anna", "n2")
		w.expect(c, "notification n2")
	})
}

func TestBacklogComesByPriorityThenSeq(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publish("anna", "n1", func(n *notification.Notification) { n.Priority = notification.Low })
		w.publish("anna", "n2")
		w.publish("anna", "n3", func(n *notification.Notification) { n.Priority = notification.High })
		w.publish("anna", "n4")
		w.expect(w.connect(frame.Hello{Recipient: "anna"}),
			"welcome", "notification n3", "notification n2", "notification n4", "notification n1")
	})
}

func TestWindowHoldsBackUntilAcks(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Window: 2})
		for i := 1; i <= 5; i++ {
			w.publish("anna", "n"+strconv.Itoa(i))
		}
		w.expect(c, "welcome", "notification n1", "notification n2")
		c.ack("n1")
		w.expect(c, "notification n3")
		c.ack("n2", "n3")
		w.expect(c, "notification n4", "notification n5")
	})
}

func TestUnackedIsRedeliveredWithBackoff(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		w.publish("anna", "n1")
		w.expect(c, "welcome", "notification n1")
		time.Sleep(time.Second)
		for _, wait := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
			time.Sleep(wait - 2*time.Second)
			w.expect(c)
			time.Sleep(2 * time.Second)
			w.expect(c, "notification n1 again")
		}
		c.ack("n1")
		time.Sleep(time.Hour / 2)
		w.expect(c)
	})
}

func TestNackAsksForRedeliveryAfterItsTime(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.publish("anna", "n1")
		w.expect(c, "welcome", "notification n1")
		time.Sleep(99 * time.Millisecond) // the end of a tick
		c.s.Frame(&frame.Client{Kind: frame.KindNack, IDs: [][]byte{[]byte("n1")}, After: 2 * time.Second})
		time.Sleep(1999 * time.Millisecond)
		w.expect(c)
		time.Sleep(300 * time.Millisecond)
		w.expect(c, "notification n1 again")
	})
}

func TestAckOnOneDeviceRecallsOnTheOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		phone, tablet := w.connect(frame.Hello{Recipient: "anna", Device: "phone"}), w.connect(frame.Hello{Recipient: "anna"})
		w.publish("anna", "n1")
		w.expect(phone, "welcome", "notification n1")
		w.expect(tablet, "welcome", "notification n1")
		phone.ack("n1")
		w.expect(phone)
		w.expect(tablet, "recall n1")
	})
}

func TestHeldNotificationsSettledMeanwhileAreRecalled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publish("anna", "n1")
		c := w.connect(frame.Hello{Recipient: "anna", Held: []string{"old", "n1"}})
		got := c.got()
		if len(got) != 3 || got[0] != "welcome" {
			t.Fatalf("got %q", got)
		}
		for _, f := range got[1:] {
			if f != "recall old" && f != "notification n1" {
				t.Errorf("got frame %q", f)
			}
		}
	})
}

func TestSecondSessionOfADeviceReplacesTheFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.connect(frame.Hello{Recipient: "anna", Device: "phone"})
		second := w.connect(frame.Hello{Recipient: "anna", Device: "phone"})
		w.publish("anna", "n1")
		w.expect(first, "welcome", "goodbye replaced")
		w.expect(second, "welcome", "notification n1")
	})
}

// TestLaterSessionOfADeviceStays: nodes learn of each other's sessions within microseconds, and of two sessions that start at the same time
// one stays.
func TestLaterSessionOfADeviceStays(t *testing.T) {
	for by, c := range map[time.Duration]struct{ lesser, ends bool }{
		-time.Millisecond:     {true, false},
		-2 * time.Microsecond: {true, false},
		0:                     {false, false},
		2 * time.Microsecond:  {false, true},
		99 * time.Millisecond: {false, true},
	} {
		inWorld(t, func(w *world) {
			time.Sleep(123456 * time.Microsecond)
			s := w.connect(frame.Hello{Recipient: "anna", Device: "phone"})
			w.expect(s, "welcome")
			if at := s.s.Since(); !at.Equal(time.Now()) {
				t.Errorf("it came at %s, now is %s", at, time.Now())
			}
			there := Device{Name: "phone", Named: true, Since: s.s.Since().Add(by)}
			w.hub.Replaced("demo", "anna", there, c.lesser)
			synctest.Wait()
			if got := len(s.got()) > 0; got != c.ends {
				t.Errorf("a device that came to another node %s later: the session here ends: %t", by, got)
			}
			if by == 0 {
				w.hub.Replaced("demo", "anna", there, true)
				w.expect(s, "goodbye replaced")
			}
		})
	}
}

func TestFullTransportIsCaughtUpWhenItDrains(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome")
		c.full = true
		w.publish("anna", "n1")
		w.publish("anna", "n2")
		w.expect(c)
		c.fill(false)
		c.s.Drained()
		w.expect(c, "notification n1", "notification n2")
		w.publish("anna", "n3")
		w.expect(c, "notification n3")
	})
}

func TestFailedStoreReadIsRetried(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mail.fail = true
		w.publish("anna", "n1")
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome")
		w.mail.mu.Lock()
		w.mail.fail = false
		w.mail.mu.Unlock()
		time.Sleep(2 * time.Second)
		w.expect(c, "notification n1")
	})
}

func TestAMissedRouteIsFoundByRereading(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome")
		w.mail.lose("anna", "n1")
		w.untilCompared(c)
		w.expect(c, "notification n1")
	})
}

func TestSilentClientIsProbedThenClosed(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: 10 * time.Second})
		time.Sleep(35 * time.Second)
		w.expect(c, "welcome")
		if c.probes < 2 {
			t.Fatalf("a client that answers was probed %d times in 35 s", c.probes)
		}
		c.mu.Lock()
		c.mute = true
		c.mu.Unlock()
		time.Sleep(25 * time.Second)
		w.expect(c, "goodbye heartbeat_timeout")
	})
}

func TestHelloMustComeInTime(t *testing.T) {
	inWorld(t, func(w *world) {
		c := &wire{}
		c.s = w.hub.Accept(c, Peer{})
		c.ack("n1")
		w.expect(c, "error hello_required")
		time.Sleep(11 * time.Second)
		w.expect(c, "goodbye hello_timeout")
	})
}

func TestWrongTokenIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Token: "bad"})
		w.expect(c, "goodbye unauthenticated")
		if c.closed == nil || !c.closed.Refusal {
			t.Fatalf("closed with %+v, want a refusal", c.closed)
		}
	})
}

func TestAHelloAfterTheGoodbyeIsNotHeard(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Token: "bad"})
		w.expect(c, "goodbye unauthenticated")
		c.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{Recipient: "anna"}})
		synctest.Wait()
		w.expect(c)
	})
}

// A token's recipient comes from its issuer, which may be a third party's service.
func TestATokenWithoutAUsableNameIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Token: "nobody"})
		if got := strings.Join(c.got(), " "); strings.Contains(got, "welcome") || !strings.Contains(got, "goodbye") || c.closed == nil || !c.closed.Refusal {
			t.Fatalf("told %q and closed with %+v, want a refusal", got, c.closed)
		}
	})
}

func TestSessionEndsWithItsTokenUnlessRenewed(t *testing.T) {
	inWorld(t, func(w *world) {
		ends := w.connect(frame.Hello{Recipient: "anna", Token: "20s"})
		renews := w.connect(frame.Hello{Recipient: "anna", Token: "20s"})
		time.Sleep(15 * time.Second)
		renews.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{Token: "60s"}})
		time.Sleep(10 * time.Second)
		w.expect(ends, "welcome", "goodbye token_expired")
		w.expect(renews, "welcome", "welcome")
	})
}

func TestAnothersTokenRenewsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna", Token: "20s"})
		c.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{Token: "eve's"}})
		w.expect(c, "welcome", "goodbye forbidden")
	})
}

func TestObserverSeesWithoutSettling(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publish("anna", "n1")
		c := w.connect(frame.Hello{Recipient: "anna", Token: "peek"})
		w.publish("anna", "n2")
		w.expect(c, "welcome", "notification n1", "notification n2")
		c.ack("n1")
		w.expect(c, "error forbidden")
		if len(w.mail.settles) != 0 || len(w.mail.marks) != 0 {
			t.Fatalf("an observer left %d settles and %d marks", len(w.mail.settles), len(w.mail.marks))
		}
	})
}

func TestClientThatOnlyWatchesMayAnswerButIsNobodysPresence(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publish("anna", "n1", func(n *notification.Notification) { n.Ack = notification.AckNone })
		c := w.connect(frame.Hello{Recipient: "anna", Observe: true})
		w.publish("anna", "n2")
		w.expect(c, "welcome", "notification n1", "notification n2")
		if len(w.mail.settles)+len(w.mail.marks)+len(w.mail.said) != 0 || len(w.hub.online("demo", "anna")) != 0 {
			t.Fatalf("a client that watches left %d settles, %d marks, %d signs of life", len(w.mail.settles), len(w.mail.marks), len(w.mail.said))
		}
		c.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{Recipient: "anna"}}) // a new token
		w.expect(c, "welcome")
		c.ack("n1")
		c.s.Frame(&frame.Client{Kind: frame.KindReply, Reply: &frame.Reply{ID: []byte("n2"), Data: []byte(`"yes"`)}})
		if s := w.mail.settles; len(s) != 2 || s[0].As != notification.Acked || s[1].As != notification.Replied || s[1].ID != "n2" {
			t.Fatalf("settles: %+v", s)
		}
	})
}

func TestKeyThatMayOnlyObserveMayNotAnswerEither(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publish("anna", "n1")
		c := w.connect(frame.Hello{Recipient: "anna", Token: "peek", Observe: true})
		c.ack("n1")
		w.expect(c, "welcome", "notification n1", "error forbidden")
	})
}

func TestAckNoneIsSettledByTheFirstWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.publish("anna", "n1", func(n *notification.Notification) { n.Ack = notification.AckNone })
		w.expect(c, "welcome", "notification n1")
		if len(w.mail.settles) != 1 || w.mail.settles[0].As != notification.Delivered {
			t.Fatalf("settles: %+v", w.mail.settles)
		}
		if len(w.mail.marks) != 1 || w.mail.marks[0].Ack != notification.AckNone {
			t.Fatalf("marks: %+v", w.mail.marks)
		}
		time.Sleep(time.Minute)
		w.expect(c)
	})
}

// TestCopySettledByItsOnlyWriteNeedsNoMark sends a notification without acknowledgement to a recipient's only session: its settle contains
// everything. With two sessions, only a mark records the second session's write.
func TestCopySettledByItsOnlyWriteNeedsNoMark(t *testing.T) {
	inWorld(t, func(w *world) {
		none := func(n *notification.Notification) { n.Ack = notification.AckNone }
		told := func(of string) (told []bool) {
			w.mail.mu.Lock()
			defer w.mail.mu.Unlock()
			for _, m := range w.mail.marks {
				if m.ID == of {
					told = append(told, m.Told)
				}
			}
			return told
		}
		w.publish("anna", "waits", none)
		anna := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(anna, "welcome", "notification waits")
		w.publish("anna", "alone", none)
		w.expect(anna, "notification alone")
		phone := w.connect(frame.Hello{Recipient: "anna", Device: "phone"})
		w.expect(phone, "welcome")
		w.publish("anna", "both", none)
		w.expect(anna, "notification both")
		w.expect(phone, "notification both")
		for id, want := range map[string][]bool{"waits": {false}, "alone": {true}, "both": {false, false}} {
			if got := told(id); !slices.Equal(got, want) {
				t.Errorf("notes of %q need not be kept: %v, want %v", id, got, want)
			}
		}
	})
}

func TestShutdownSaysGoodbyeWithASpreadRetry(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.hub.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		w.expect(c, "welcome", "goodbye shutdown")
		w.expect(w.connect(frame.Hello{Recipient: "bert"}), "goodbye shutdown")
	})
}

func TestEndingServerAsksClientsToReturnLater(t *testing.T) {
	for range 20_000 {
		if g := away(time.Second); g.RetryAfter.Milliseconds() == 0 {
			t.Fatalf("retry after %s, which a frame says as 0", g.RetryAfter)
		}
	}
}

func TestDrainSendsSessionsAwaySpread(t *testing.T) {
	inWorld(t, func(w *world) {
		const n = 3000
		all := make([]*wire, n)
		for i := range all {
			all[i] = w.connect(frame.Hello{App: "demo", Recipient: fmt.Sprintf("r%d", i)})
		}
		begun := time.Now()
		done := make(chan error, 1)
		go func() { done <- w.hub.Drain(context.Background()) }()
		time.Sleep(time.Second)
		if left := w.hub.Live(); left < n/2 || left > n*9/10 {
			t.Errorf("after a second of four, %d of %d sessions are left", left, n)
		}
		late := &wire{}
		late.s = w.hub.Accept(late, Peer{})
		late.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{App: "demo", Recipient: "late"}})
		if got := late.got(); !slices.Equal(got, []string{"goodbye shutdown"}) {
			t.Errorf("a new client got %q", got)
		}
		if err := <-done; err != nil || w.hub.Live() != 0 {
			t.Errorf("%v, %d are left", err, w.hub.Live())
		}
		if took := time.Since(begun); took < 3*time.Second || took > 6*time.Second {
			t.Errorf("it took %s", took)
		}
		w.expect(all[0], "welcome", "goodbye shutdown")
	})
}

func TestAnErasedRecipientIsNotNotedAsSeen(t *testing.T) {
	for reason, want := range map[string]int{"disconnected": 2, frame.Erased: 1} { // one is the hello's
		inWorld(t, func(w *world) {
			c := w.connect(frame.Hello{Recipient: "anna"})
			c.s.Goodbye(frame.Goodbye{Reason: reason})
			if n := len(w.mail.seen); n != want {
				t.Errorf("%s: noted %d times as seen, want %d", reason, n, want)
			}
		})
	}
}

func TestPresenceFollowsTheFirstAndLastSession(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.connect(frame.Hello{Recipient: "anna"}), w.connect(frame.Hello{Recipient: "anna"})
		a.s.Closed()
		b.s.Closed()
		var got []string
		for _, e := range w.evs.evs {
			got = append(got, string(e.Type)+" "+e.To)
		}
		if len(got) != 2 || got[0] != "online anna" || got[1] != "offline anna" {
			t.Fatalf("events %q", got)
		}
	})
}

// TestSessionReplacesAllOfItsDevice has sessions of one device come before those that they replace have ended.
func TestSessionReplacesAllOfItsDevice(t *testing.T) {
	var r registry
	r.init()
	a := address{"demo", "anna"}
	come := func(device string) (s *Session, replaced int) {
		s = &Session{app: a.app, recipient: a.recipient, device: device}
		all, _, ok := r.add(a, s)
		if !ok {
			t.Fatal("a session is refused")
		}
		return s, len(all)
	}
	come("tablet")
	come("")
	for before := range 3 {
		if _, n := come("phone"); n != before {
			t.Errorf("session %d of the device replaces %d, want %d", before+1, n, before)
		}
	}
}
