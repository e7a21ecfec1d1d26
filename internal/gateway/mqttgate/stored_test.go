package mqttgate_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/store/sqltx"
)

// leaves disconnects a client, and forgets its session in memory.
func (k *kept) leaves(t *testing.T, p *peer) {
	t.Helper()
	p.parts(k)
	until(t, "the client is away", func() bool { return k.metric(t, "godwit_mqtt_sessions", "connected") == 0 })
	k.gateway.ForgetAway()
}

// TestStoredSessionIsWhatItWas: a client that comes back after a restart has its mailbox, objects, topics, queues and filters, and what it has ended is
// over.
func TestStoredSessionIsWhatItWas(t *testing.T) {
	for _, v := range []wire.Version{wire.V311, wire.V5} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			s := keeping(t)
			hello, props := lasting(v, "unit", "phone")
			p := connect(t, s.Server, hello, props...)
			s.Put(t, "config", object.Put{Version: 7, Payload: []byte(`1`), ContentType: "application/json"})
			p.subscribed(1, "inbox", "kept/#")
			p.subscribed(0, "news/#", "$share/q/work/+", "ended/#")
			p.subscribed(1, "o/region-1/config")
			m := p.message("o/region-1/config", "1")
			p.send(wire.AppendAck(nil, v, wire.PUBACK, m.ID, wire.Success, nil))
			p.send(wire.AppendUnsubscribe(nil, v, 77, "ended/#"))
			p.suback(wire.UNSUBACK)
			for range 2 {
				s.leaves(t, p)
				if p = connect(t, s.Server, hello, props...); !p.ack.Present {
					t.Fatal("the session is not present")
				}
				s.Tell(t, "ended.1", `0`)
				s.Tell(t, "news.1", `1`)
				p.message("news/1", "1")
				s.Tell(t, "work.1", `2`)
				p.message("work/1", "2")
				ben := connect(t, s.Server, hi(v, "ben", ""))
				ben.told(1, "kept/1", "x")
				m := p.message("kept/1", "x")
				p.send(wire.AppendAck(nil, v, wire.PUBACK, m.ID, wire.Success, nil))
				_ = ben.nc.Close()
				until(t, "the message is acknowledged", func() bool {
					info, err := s.Mailbox.Recipient(t.Context(), gatetest.App, filterdb.Device{App: gatetest.App, Recipient: "unit", Name: "phone"}.Mailbox())
					return err == nil && info.Pending == 0
				})
			}
			s.Send(t, draft("unit", "ride"))
			p.note("ride")
			s.Put(t, "config", object.Put{Version: 8, Payload: []byte(`2`), ContentType: "application/json"})
			p.message("o/region-1/config", "2")
		})
	}
}

// TestSessionThatIsBackForAMomentGetsWhatWaited: a client that asks for no session expiry has the session that it left, until it leaves again.
func TestSessionThatIsBackForAMomentGetsWhatWaited(t *testing.T) {
	for name, again := range map[string]bool{"subscribes no more": false, "subscribes again": true} {
		t.Run(name, func(t *testing.T) {
			s := keeping(t)
			hello, props := lasting(wire.V5, "unit", "phone")
			p := connect(t, s.Server, hello, props...)
			p.subscribed(1, "kept/#")
			s.leaves(t, p)
			ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
			ben.told(1, "kept/1", "waited")
			if p = connect(t, s.Server, hello); !p.ack.Present {
				t.Fatal("the session is not present")
			}
			m := p.message("kept/1", "waited")
			p.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, m.ID, wire.Success, nil))
			if again {
				p.subscribed(1, "kept/#")
			}
			ben.told(1, "kept/2", "is here")
			m = p.message("kept/2", "is here")
			if m.QoS != 1 { // from memory, if it has subscribed again
				t.Errorf("a message came at QoS %d", m.QoS)
			}
			_ = ben.nc.Close()
			p.parts(s)
			until(t, "nothing waits for the device", func() bool { return len(s.boxes("kept.1")) == 0 })
			if p = connect(t, s.Server, hello); p.ack.Present {
				t.Error("the session has outlasted a connection without an expiry")
			}
		})
	}
}

// TestSubscriptionsChangedForAMomentAreThoseOfWhoTakesOver: the connection of a session without an expiry hangs, and its client comes again.
func TestSubscriptionsChangedForAMomentAreThoseOfWhoTakesOver(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(0, "news/a", "news/b")
	s.leaves(t, p)
	p = connect(t, s.Server, hello)
	p.send(wire.AppendUnsubscribe(nil, wire.V5, 77, "news/a"))
	p.suback(wire.UNSUBACK)
	p.subscribed(0, "news/c")
	if p = connect(t, s.Server, hello, props...); !p.ack.Present {
		t.Fatal("the session is not present")
	}
	for _, name := range []string{"a", "b", "c"} {
		s.Tell(t, "news."+name, `1`)
	}
	p.message("news/b", "1")
	p.message("news/c", "1")
}

// TestExpiredSessionIsNotPresent: nor are its registrations, and what waits for it is gone.
func TestExpiredSessionIsNotPresent(t *testing.T) {
	for name, swept := range map[string]bool{"swept": true, "not swept": false} {
		t.Run(name, func(t *testing.T) {
			s := keeping(t)
			hello, props := lasting(wire.V5, "unit", "phone") // for a minute
			p := connect(t, s.Server, hello, props...)
			p.subscribed(1, "kept/#", "inbox")
			s.leaves(t, p)
			s.ahead.Add(int64(61 * time.Second))
			if swept {
				s.pass(0)
			}
			if p = connect(t, s.Server, hello, props...); p.ack.Present {
				t.Error("a session is present after its time")
			}
			until(t, "its filters are over", func() bool { return len(s.boxes("kept.1")) == 0 })
			s.Send(t, draft("unit", "ride"))
			p.ping() // and no notification
		})
	}
}

// TestSubscriptionsOfALastingSessionAreLimited: by their number and their bytes.
func TestSubscriptionsOfALastingSessionAreLimited(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "phone")
	p := connect(t, s.Server, hello, props...)
	for i := range 256 {
		n := strconv.Itoa(i)
		if got := p.subscribed(0, "n/"+n, "o/region-1/"+n); got[0].Failed() || got[1].Failed() {
			t.Fatalf("subscriptions %d and one more are answered %v", 2*i+1, got)
		}
		p.anyMessage() // the object is unknown
	}
	if got := p.subscribed(0, "o/region-1/256", "n/7"); !slices.Equal(got, []wire.Reason{wire.QuotaExceeded, wire.Success}) {
		t.Errorf("one more and one again are answered %v", got)
	}
	long, _ := lasting(wire.V5, "unit", "tablet")
	p = connect(t, s.Server, long, props...)
	refused := 0
	for i := range 250 {
		name := strings.Repeat("x", 240) + strconv.Itoa(i)
		got := p.subscribed(0, name, "o/region-1/"+name[:100]+name[240:])
		for _, r := range got {
			if r == wire.QuotaExceeded {
				refused++
			}
		}
		if !got[1].Failed() {
			p.anyMessage()
		}
	}
	if refused == 0 || refused == 500 {
		t.Errorf("of 500 filters with 88 KB %d are refused", refused)
	}
}

// away disconnects one of several clients.
func (p *peer) away(s *kept) {
	p.t.Helper()
	p.send(wire.AppendDisconnect(nil, p.v, wire.Success, nil))
	until(p.t, "the client is away", func() bool { return s.metric(p.t, "godwit_mqtt_sessions", "away") == 1 })
}

// TestMessagesOfAQueueGoToTheOtherMembersWhenOneEnds: MQTT 5, section 4.8.2.
func TestMessagesOfAQueueGoToTheOtherMembersWhenOneEnds(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *kept, *peer, func(clean bool) *peer){
		"its time is over": func(_ *testing.T, s *kept, p *peer, _ func(bool) *peer) {
			p.away(s)
			s.pass(61 * time.Second)
		},
		"a clean start": func(_ *testing.T, s *kept, p *peer, again func(bool) *peer) {
			p.away(s)
			again(true)
		},
		"it says so": func(_ *testing.T, _ *kept, p *peer, _ func(bool) *peer) {
			p.send(wire.AppendDisconnect(nil, wire.V5, wire.Success, wire.AppendNumber(nil, wire.SessionExpiry, 0)))
		},
		"it is erased": func(t *testing.T, s *kept, p *peer, _ func(bool) *peer) {
			p.away(s)
			if _, err := s.filters.EraseRecipient(t.Context(), gatetest.App, "unit"); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := keeping(t)
			hello, props := lasting(wire.V5, "unit", "one")
			again := func(clean bool) *peer {
				hello.Clean = clean
				return connect(t, s.Server, hello, props...)
			}
			p := again(false)
			p.subscribed(1, "$share/q/kept/#", "kept/own")
			ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
			for i := range 3 { // none is acknowledged
				ben.told(1, "kept/"+strconv.Itoa(i), strconv.Itoa(i))
				p.message("kept/"+strconv.Itoa(i), strconv.Itoa(i))
			}
			ben.told(1, "kept/own", "own")
			other, _ := lasting(wire.V5, "other", "two")
			long := wire.AppendNumber(nil, wire.SessionExpiry, 3600)
			q := connect(t, s.Server, other, long...)
			q.subscribed(1, "$share/q/kept/#")
			end(t, s, p, again)
			got := make(map[string]string)
			for range 4 {
				m := q.anyMessage()
				got[string(m.Topic)] = string(m.Payload)
				q.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, m.ID, wire.Success, nil))
			}
			if want := map[string]string{"kept/0": "0", "kept/1": "1", "kept/2": "2", "kept/own": "own"}; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the other member gets %v, want %v", got, want)
			}
			q.ping()
			box := filterdb.Device{App: gatetest.App, Recipient: "unit", Name: "one"}.Mailbox()
			until(t, "nothing waits for the one that has ended", func() bool {
				info, err := s.Mailbox.Recipient(t.Context(), gatetest.App, box)
				return err != nil || info.Pending == 0
			})
		})
	}
}

// TestTakeoverMovesNothingToOtherMembers: the member's session continues and keeps its waiting messages.
func TestTakeoverMovesNothingToOtherMembers(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "one")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(1, "$share/q/kept/#")
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	ben.told(1, "kept/1", "1")
	p.message("kept/1", "1") // not acknowledged
	other, props2 := lasting(wire.V5, "other", "two")
	q := connect(t, s.Server, other, props2...)
	q.subscribed(1, "$share/q/kept/#")
	again := connect(t, s.Server, hello, props...)
	p.ended(wire.TakenOver)
	m := again.message("kept/1", "1")
	again.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, m.ID, wire.Success, nil))
	s.pass(0)
	q.ping() // and nothing before
}

// heldDB is a database that counts changes and can hold them back.
type heldDB struct {
	sqltx.Database
	mu    sync.Mutex
	begun int
	hold  chan struct{} // nil: none is held back
}

func (h *heldDB) Change(ctx context.Context, op string, do func(context.Context, sqltx.Tx) error) error {
	h.mu.Lock()
	h.begun++
	hold := h.hold
	h.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return h.Database.Change(ctx, op, do)
}

// holds sets what holds changes back, and returns how many have begun.
func (h *heldDB) holds(by chan struct{}) (begun int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = by
	return h.begun
}

func (h *heldDB) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun
}

// TestClientThatHangsUpBeforeItsAnswerLeavesItsSession: for its next connection.
func TestClientThatHangsUpBeforeItsAnswerLeavesItsSession(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(0, "news/#")
	s.leaves(t, p)
	for range 20 {
		release := make(chan struct{})
		n := s.db.holds(release)
		brief := dialRaw(t, addrOf(s.Server), wire.V5)
		if err := brief.write(wire.AppendConnect(nil, hello, props, nil)); err != nil {
			t.Fatal(err)
		}
		until(t, "the session is taken", func() bool { return s.db.count() == n+1 })
		s.db.holds(nil)
		_ = brief.nc.Close() // the server may notice it before or after the session is read
		close(release)
		until(t, "the session is left", func() bool { return s.db.count() == n+2 })
	}
	if away, here := s.metric(t, "godwit_mqtt_sessions", "away"), s.metric(t, "godwit_mqtt_sessions", "connected"); away+here > 1 || here > 0 {
		t.Errorf("%v sessions count as away and %v as connected", away, here)
	}
	if p = connect(t, s.Server, hello, props...); !p.ack.Present {
		t.Error("the session is gone")
	}
	s.Tell(t, "news.1", "1")
	p.message("news/1", "1")
	s.leaves(t, p)
	s.pass(2 * time.Minute)
	if p = connect(t, s.Server, hello, props...); p.ack.Present {
		t.Error("the session is there after its time")
	}
}

// TestSessionLastsFromWhenItsClientLeft: even where the database stores that later.
func TestSessionLastsFromWhenItsClientLeft(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "phone") // for a minute
	p := connect(t, s.Server, hello, props...)
	p.subscribed(0, "news/#")
	release := make(chan struct{})
	s.db.holds(release)
	s.leaves(t, p)
	s.ahead.Add(int64(61 * time.Second))
	s.db.holds(nil)
	close(release)
	if p = connect(t, s.Server, hello, props...); p.ack.Present {
		t.Error("a session is present after its time")
	}
}

// TestWhatAClientAcknowledgesBeforeItHangsUpCounts: also while its subscription is being stored, and though the answer cannot be sent.
func TestWhatAClientAcknowledgesBeforeItHangsUpCounts(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V311, "unit", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(1, "inbox")
	s.Send(t, draft("unit", "one"))
	s.Send(t, draft("unit", "two"))
	first, second := p.note("one"), p.note("two")
	release := make(chan struct{})
	n := s.db.holds(release)
	p.send(wire.AppendSubscribe(nil, p.v, 78, nil, wire.Filter{Name: []byte("news/#"), QoS: 0}))
	until(t, "the subscription is being stored", func() bool { return s.db.count() == n+1 })
	s.db.holds(nil)
	for _, m := range []*wire.Publish{first, second} {
		p.send(wire.AppendAck(nil, p.v, wire.PUBACK, m.ID, wire.Success, nil))
	}
	if err := p.nc.(*net.TCPConn).SetLinger(0); err != nil { // as a client that has not read what was sent to it
		t.Fatal(err)
	}
	_ = p.nc.Close()
	close(release)
	until(t, "both are acknowledged", func() bool {
		info, err := s.Mailbox.Recipient(t.Context(), gatetest.App, "unit")
		return err == nil && info.Pending == 0
	})
}
