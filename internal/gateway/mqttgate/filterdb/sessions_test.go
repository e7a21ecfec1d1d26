package filterdb_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// sessions is a node's store of sessions.
type sessions struct {
	*filterdb.Sessions
	*node
	name string
}

func (s *sessions) start() {
	s.t.Helper()
	var err error
	s.Sessions, err = filterdb.OpenSessions(s.t.Context(), filterdb.SessionsConfig{
		DB: s.fault.of(s.stores.Database("mqtt")), Node: s.name, Several: s.several, Now: s.now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// restart starts the server again, as after a crash: its clients were connected.
func (s *sessions) restart() {
	s.t.Helper()
	_ = s.Sessions.Close()
	s.start()
}

func startSessions(t *testing.T, cfg store.Config) *sessions {
	t.Helper()
	s := &sessions{node: start(t, cfg), name: cfg.Node}
	s.start()
	t.Cleanup(func() { _ = s.Sessions.Close() })
	return s
}

// onBoth tests on both databases.
func onBoth(t *testing.T, test func(*testing.T, *sessions)) {
	t.Run("SQLite", func(t *testing.T) { test(t, startSessions(t, store.Config{})) })
	t.Run("PostgreSQL", func(t *testing.T) {
		test(t, startSessions(t, store.Config{Postgres: pgtest.Database(t), Node: "n1", Boot: "bootaaaa"}))
	})
}

func (s *sessions) connect(o filterdb.Opening) (f filterdb.Found, err error) {
	done := make(chan struct{})
	s.Take(o, func(found filterdb.Found, wrong error) {
		f, err = found, wrong
		close(done)
	})
	<-done
	return f, err
}

func (s *sessions) taken(o filterdb.Opening) filterdb.Found {
	s.t.Helper()
	f, err := s.connect(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func (s *sessions) stored(d filterdb.Device, owner int64, subs ...filterdb.Subscription) {
	s.t.Helper()
	done := make(chan error, 1)
	s.Sessions.Store(d, owner, subs, func(err error) { done <- err })
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
}

func sub(filter string, qos byte) filterdb.Subscription {
	return filterdb.Subscription{Filter: filter, QoS: qos}
}

// want checks which session a client finds.
func (s *sessions) finds(o filterdb.Opening, former int64, subs ...filterdb.Subscription) int64 {
	s.t.Helper()
	f := s.taken(o)
	if f.Former != former || !slices.Equal(f.Subscriptions, subs) {
		s.t.Errorf("%+v finds %+v, want that of %d with %v", o, f, former, subs)
	}
	return f.Owner
}

func TestSessionIsThereAfterARestart(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sessions) {
		me := filterdb.Opening{Of: device("phone"), Expiry: time.Hour}
		owner := s.finds(me, 0)
		list := []filterdb.Subscription{sub("inbox", 1), sub("$share/q/news/#", 0), {Filter: `å"/+`, NoLocal: true}}
		s.stored(me.Of, owner, list...)
		for range 2 {
			s.restart()
			owner = s.finds(me, owner, list...)
		}
		s.stored(me.Of, owner)
		s.Leave(me.Of, owner, time.Hour)
		s.restart()
		s.finds(me, owner)
		s.finds(filterdb.Opening{Of: device("tablet"), Expiry: time.Hour}, 0)
	})
}

func TestCleanStartDiscardsTheStoredSession(t *testing.T) {
	for name, expiry := range map[string]time.Duration{"that lasts": time.Hour, "for a moment": 0} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *sessions) {
				me := filterdb.Opening{Of: device("phone"), Expiry: time.Hour}
				s.stored(me.Of, s.finds(me, 0), sub("inbox", 1))
				fresh := s.finds(filterdb.Opening{Of: me.Of, Clean: true, Expiry: expiry}, 0)
				if (fresh != 0) != (expiry > 0) {
					t.Errorf("the new session is stored as %d", fresh)
				}
				s.restart()
				s.finds(me, fresh)
			})
		})
	}
}

func TestSessionEndsWithItsTime(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sessions) {
		me, other := filterdb.Opening{Of: device("phone"), Expiry: time.Minute}, filterdb.Opening{Of: device("tablet"), Expiry: time.Minute}
		owner := s.finds(me, 0)
		s.stored(me.Of, owner, sub("inbox", 1))
		s.pass(40 * time.Minute) // while it is connected
		s.noneOver()
		if err := s.Sessions.Extend(); err != nil {
			t.Fatal(err)
		}
		s.pass(40 * time.Minute)
		s.noneOver()
		lost := filterdb.Opening{Of: device("watch"), Expiry: time.Minute}
		s.finds(lost, 0)
		s.restart() // a crash, from which its time counts
		s.pass(59 * time.Second)
		s.noneOver()
		owner = s.finds(me, owner, sub("inbox", 1))
		s.pass(time.Second)
		if over, err := s.Sessions.Sweep(); err != nil || !slices.Equal(over, []filterdb.Device{lost.Of}) {
			t.Errorf("a minute after a crash %v are over, %v", over, err)
		}
		s.Leave(me.Of, owner, time.Minute)
		s.stored(other.Of, s.finds(other, 0))
		s.pass(59 * time.Second)
		s.noneOver()
		s.pass(time.Second)
		if f := s.taken(me); f.Former != 0 || !f.Over || len(f.Subscriptions) > 0 { // before it is swept, too
			t.Errorf("after its time the client finds %+v", f)
		}
		s.Leave(me.Of, s.taken(me).Owner, time.Minute)
		s.finds(other, s.taken(other).Owner)
		s.pass(time.Minute)
		if over, err := s.Sessions.Sweep(); err != nil || !slices.Equal(over, []filterdb.Device{me.Of}) {
			t.Errorf("%v are over, %v", over, err)
		}
		s.finds(me, 0)
	})
}

func (s *sessions) noneOver() {
	s.t.Helper()
	if over, err := s.Sessions.Sweep(); err != nil || len(over) > 0 {
		s.t.Errorf("%v are over, %v", over, err)
	}
}

// TestClientThatGivesNoExpiryFindsItsSession: and leaves none.
func TestClientThatGivesNoExpiryFindsItsSession(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sessions) {
		me, brief := filterdb.Opening{Of: device("phone"), Expiry: time.Minute}, filterdb.Opening{Of: device("phone")}
		s.finds(brief, 0)
		owner := s.finds(me, 0)
		s.stored(me.Of, owner, sub("inbox", 1))
		owner = s.finds(brief, owner, sub("inbox", 1))
		s.End(me.Of, owner)
		s.finds(me, 0)
	})
}

// TestLateChangesOfAFormerConnectionHaveNoEffect: the client is at another node by then.
func TestLateChangesOfAFormerConnectionHaveNoEffect(t *testing.T) {
	url := pgtest.Database(t)
	one, two := startSessions(t, store.Config{Postgres: url, Node: "n1", Boot: "bootaaaa"}), startSessions(t, store.Config{Postgres: url, Node: "n2", Boot: "bootbbbb"})
	me := filterdb.Opening{Of: device("phone"), Expiry: time.Hour}
	former := one.finds(me, 0)
	one.stored(me.Of, former, sub("inbox", 1))
	wentOn := func(want bool) {
		t.Helper()
		if on, err := one.WentOn(t.Context(), me.Of, former); on != want || err != nil {
			t.Errorf("went on elsewhere: %t, %v; want %t", on, err, want)
		}
	}
	wentOn(false)
	owner := two.finds(me, former, sub("inbox", 1))
	wentOn(true)
	two.stored(me.Of, owner, sub("inbox", 1), sub("news/#", 0))
	one.stored(me.Of, former, sub("jobs/#", 0))
	one.Leave(me.Of, former, time.Second)
	one.End(me.Of, former)
	one.restart() // nobody of its clients is connected
	one.pass(time.Minute)
	one.noneOver()
	one.finds(me, owner, sub("inbox", 1), sub("news/#", 0))
	two.finds(filterdb.Opening{Of: me.Of, Clean: true, Expiry: time.Hour}, 0)
	wentOn(false)
}

func TestErasedRecipientLeavesNoSession(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sessions) {
		me, other := filterdb.Opening{Of: device("phone"), Expiry: time.Hour}, filterdb.Opening{Of: filterdb.Device{App: "demo", Recipient: "another", Name: "phone"}, Expiry: time.Hour}
		owner, left := s.finds(me, 0), s.finds(other, 0)
		if n, err := s.Sessions.EraseRecipient(t.Context(), "demo", "unit"); err != nil || n != 1 {
			t.Errorf("%d sessions erased, %v", n, err)
		}
		s.stored(me.Of, owner, sub("inbox", 1)) // of a connection that is about to end
		s.Leave(me.Of, owner, time.Hour)
		s.finds(me, 0)
		left = s.finds(other, left)
		if err := s.Sessions.EraseApp(t.Context(), "demo"); err != nil {
			t.Fatal(err)
		}
		s.finds(other, 0)
		_ = left
	})
}

// TestSessionsAreStoredOnceTheStoreIsThereAgain: clients do not wait for it meanwhile.
func TestSessionsAreStoredOnceTheStoreIsThereAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sessions) {
		away := errors.New("the disk is full")
		me := filterdb.Opening{Of: device("phone"), Expiry: time.Hour}
		s.fault.fails(away)
		for range 3 {
			if _, err := s.connect(me); !errors.Is(err, away) {
				t.Fatalf("a client is given a session: %v", err)
			}
		}
		owner := s.Adopt(me.Of, me.Expiry, []filterdb.Subscription{sub("news/#", 0)})
		told := make(chan error, 1)
		s.Sessions.Store(me.Of, owner, []filterdb.Subscription{sub("news/#", 0), sub("inbox", 1)}, func(err error) { told <- err })
		if err := <-told; !errors.Is(err, away) {
			t.Errorf("a subscription that is not stored is acknowledged: %v", err)
		}
		s.Sessions.Store(me.Of, owner, []filterdb.Subscription{sub("news/#", 1)}, nil)
		s.fault.fails(nil)
		var f filterdb.Found
		for {
			var err error
			if f, err = s.connect(me); err == nil {
				break
			}
			time.Sleep(time.Millisecond) // until the next try
		}
		if f.Former != owner || !slices.Equal(f.Subscriptions, []filterdb.Subscription{sub("news/#", 1)}) {
			t.Errorf("found %+v, want the session of %d", f, owner)
		}
	})
}

// TestChangesThatWaitForTheStoreAreFew: however often a client comes and goes meanwhile. The last state is stored.
func TestChangesThatWaitForTheStoreAreFew(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sessions) {
		s.fault.fails(errors.New("the disk is full"))
		me, brief := device("phone"), filterdb.Opening{Of: device("brief"), Clean: true}
		var owner int64
		for i := range 50 {
			owner = s.Adopt(me, time.Hour, []filterdb.Subscription{sub(fmt.Sprint("news/", i), 0)})
			s.Sessions.Store(me, owner, []filterdb.Subscription{sub(fmt.Sprint("jobs/", i), 0)}, nil)
			s.Take(brief, func(filterdb.Found, error) {})
			s.Leave(me, owner, time.Hour)
		}
		told := make(chan error, 1)
		for {
			s.Sessions.Store(me, owner, nil, func(err error) { told <- err }) // is told after the next failure
			<-told
			if n := s.Waiting(); n <= 4 {
				break
			}
		}
		s.fault.fails(nil)
		var f filterdb.Found
		for err := errors.New("not yet"); err != nil; time.Sleep(time.Millisecond) { // until the next try
			f, err = s.connect(filterdb.Opening{Of: me, Expiry: time.Hour})
		}
		if f.Former != owner || !slices.Equal(f.Subscriptions, []filterdb.Subscription{sub("jobs/49", 0)}) {
			t.Errorf("found %+v, want the session of %d", f, owner)
		}
	})
}

// TestSessionsOfARecipientAreLimited: a client beyond the limit is served, and has no stored session.
func TestSessionsOfARecipientAreLimited(t *testing.T) {
	onBoth(t, func(t *testing.T, s *sessions) {
		const most = 1024
		stored := make(chan bool, most+1)
		for i := range most + 1 {
			s.Take(filterdb.Opening{Of: device(fmt.Sprint("d", i)), Expiry: time.Hour}, func(f filterdb.Found, err error) { stored <- err == nil && f.Owner != 0 })
		}
		n := 0
		for range most + 1 {
			if <-stored {
				n++
			}
		}
		if n != most {
			t.Errorf("%d sessions are stored, want %d", n, most)
		}
		if f := s.taken(filterdb.Opening{Of: filterdb.Device{App: "demo", Recipient: "another", Name: "d"}, Expiry: time.Hour}); f.Owner == 0 {
			t.Error("the session of another recipient is not stored")
		}
	})
}
