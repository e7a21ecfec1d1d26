package mailboxdb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// shaky is a store whose connections break at points that a test chooses.
type shaky struct {
	*mailboxdb.Store
	t     *testing.T
	proxy *pgtest.Proxy
	cfg   mailboxdb.Config
	clock *testclock.Clock
	told  *storetest.Recorder
	fresh bool // ids that fail publishes are as if the server had made them
}

// openShaky opens a store in which "first" was published to r.
func openShaky(t *testing.T) *shaky {
	t.Helper()
	return openOver(t, pgtest.NewProxy(t), pgtest.Schema(t))
}

func openOver(t *testing.T, proxy *pgtest.Proxy, schema string) *shaky {
	t.Helper()
	s := &shaky{t: t, proxy: proxy, clock: testclock.New(), told: &storetest.Recorder{}}
	s.cfg = mailboxdb.Config{URL: proxy.URL(), Schema: schema, Now: s.clock.Now}
	s.Store = open(t, s.cfg)
	s.Observe(s.told)
	publish(t, s.Store, s.note("first"), "r")
	return s
}

func (s *shaky) note(id string) *notification.Notification { return note(s.clock.Now(), id) }

// fail publishes to r over a connection that breaks, and expects mailbox.ErrAway.
func (s *shaky) fail(n *notification.Notification) {
	s.t.Helper()
	err := s.Append(context.Background(), []*mailbox.Append{{N: n, To: []string{"r"}, Fresh: s.fresh}})
	if !errors.Is(err, mailbox.ErrAway) {
		s.t.Errorf("publish %s: %v, want that the store is away", n.ID, err)
	}
}

// publish publishes as a back end does: it repeats the request until it succeeds. After a failover every pooled connection fails once.
func (s *shaky) publish(n *notification.Notification, to ...string) {
	s.t.Helper()
	eventually.True(s.t, "to publish "+n.ID, func() bool {
		err := s.Append(context.Background(), []*mailbox.Append{{N: n, To: to}})
		if err != nil && !errors.Is(err, mailbox.ErrAway) {
			s.t.Fatalf("publish %s: %v", n.ID, err)
		}
		return err == nil
	})
}

// history reads the history of r, or of another recipient.
func (s *shaky) history(of string) (items []mailbox.Record) {
	s.t.Helper()
	eventually.True(s.t, "to read what "+of+" has", func() bool {
		var err error
		items, _, err = s.History(context.Background(), storetest.App, of, 0, 100, 0)
		if err != nil && !errors.Is(err, mailbox.ErrAway) {
			s.t.Fatalf("read what %s has: %v", of, err)
		}
		return err == nil
	})
	return items
}

func (s *shaky) ack(pos int64) *mailbox.Settle {
	return &mailbox.Settle{App: storetest.App, Recipient: "r", Pos: pos, As: notification.Acked, At: s.clock.Now()}
}

// stored lists the ids that the observer saw stored, in order; ended lists those that it saw settled.
func (s *shaky) stored() (ids []string) {
	for _, it := range s.told.All().Stored {
		ids = append(ids, it.N.ID)
	}
	return ids
}

func (s *shaky) ended() (positions []int64) {
	for _, e := range s.told.All().Settled {
		positions = append(positions, e.Pos)
	}
	return positions
}

// wantOnly checks that the observer saw these notifications stored, in this order, and that the store holds no others.
func (s *shaky) wantOnly(ids ...string) {
	s.t.Helper()
	all := s.told.All().Stored
	if got := s.stored(); !slices.Equal(got, ids) {
		s.t.Errorf("told of %q, want %q", got, ids)
	}
	for i := range all {
		if all[i].Seq != uint64(i+1) {
			s.t.Errorf("told of seq %d of %s, want %d", all[i].Seq, all[i].N.ID, i+1)
		}
	}
	if items := s.history("r"); len(items) != len(ids) {
		s.t.Errorf("%d are stored, want %d", len(items), len(ids))
	}
}

func TestPublishWithLostAnswerIsReportedOnce(t *testing.T) {
	t.Run("although nothing else happens", func(t *testing.T) {
		s := openShaky(t)
		s.proxy.LoseAnswers(1)
		s.fail(s.note("a"))
		eventually.True(t, "to be told of it", func() bool { return slices.Contains(s.stored(), "a") })
		s.wantOnly("first", "a")
	})
	t.Run("before what comes after it, and is a duplicate when it is published again", func(t *testing.T) {
		s := openShaky(t)
		for _, id := range []string{"a", "b", "c"} { // one after the other
			s.proxy.LoseAnswers(1)
			s.fail(s.note(id))
			if again := publish(t, s.Store, s.note(id), "r"); !again[0].Duplicate {
				t.Errorf("%s again: %+v, want a duplicate", id, again[0])
			}
		}
		publish(t, s.Store, s.note("d"), "r")
		s.wantOnly("first", "a", "b", "c", "d")
	})
	t.Run("although the answer to the question for it is lost too", func(t *testing.T) {
		s := openShaky(t)
		s.proxy.LoseAnswers(3)
		s.fail(s.note("a"))
		eventually.True(t, "to be told of it", func() bool { return slices.Contains(s.stored(), "a") })
		s.wantOnly("first", "a")
	})
	t.Run("after a restart of PostgreSQL", func(t *testing.T) {
		server := pgtest.Start(t, pgtest.Options{})
		s := openOver(t, server.Proxy(t), "")
		s.proxy.LoseAnswers(2)
		s.fail(s.note("a"))
		server.Restart(t)
		s.publish(s.note("b"), "r")
		s.wantOnly("first", "a", "b")
	})
}

// A publish that takes one round trip gets its position from the database, with the answer that was lost.
func TestPublishOfOneRoundTripWithLostAnswerIsReportedOnce(t *testing.T) {
	t.Run("it is there", func(t *testing.T) {
		s := openShaky(t)
		s.fresh = true
		for _, id := range []string{"a", "b"} {
			s.proxy.LoseAnswers(1)
			s.fail(s.note(id))
			eventually.True(t, "to be told of it", func() bool { return slices.Contains(s.stored(), id) })
		}
		s.publish(s.note("c"), "r")
		s.wantOnly("first", "a", "b", "c")
		for _, it := range s.told.All().Stored {
			if got, err := s.Lookup(t.Context(), storetest.App, it.N.ID, "r"); err != nil || got[0].Pos != it.Pos {
				t.Errorf("%s is at %+v, %v; told of position %d", it.N.ID, got, err, it.Pos)
			}
		}
	})
	t.Run("it is not", func(t *testing.T) {
		s := openShaky(t)
		s.fresh = true
		s.proxy.LoseCommits(1)
		s.fail(s.note("a"))
		s.publish(s.note("b"), "r")
		s.wantOnly("first", "b")
	})
}

func TestLostPublishIsNotReported(t *testing.T) {
	t.Run("since its COMMIT did not arrive", func(t *testing.T) {
		s := openShaky(t)
		s.proxy.LoseCommits(2) // the second lost COMMIT is that of the check for the first
		s.fail(s.note("a"))
		s.publish(s.note("b"), "r")
		if again := publish(t, s.Store, s.note("a"), "r"); again[0].Duplicate {
			t.Errorf("what was never stored is a duplicate: %+v", again[0])
		}
		s.wantOnly("first", "b", "a")
	})
	t.Run("since the database that took over does not have it", func(t *testing.T) {
		server := pgtest.Start(t, pgtest.Options{})
		s := openOver(t, server.Proxy(t), "")
		s.proxy.FailOver(server.Replica(t))
		s.fail(s.note("a"))
		s.publish(s.note("b"), "r")
		s.wantOnly("first", "b")
	})
}

func TestAnAckWhoseAnswerIsLostIsToldOnce(t *testing.T) {
	for name, lose := range map[string]func(p *pgtest.Proxy, commits int){
		"it is there": (*pgtest.Proxy).LoseAnswers, "it is not": (*pgtest.Proxy).LoseCommits,
	} {
		t.Run(name, func(t *testing.T) {
			s := openShaky(t)
			publish(t, s.Store, s.note("second"), "r")
			first, second := s.told.All().Stored[0].Pos, s.told.All().Stored[1].Pos
			// Another commit has settled the first copy already, not the one whose answer is lost.
			if err := s.Settle(t.Context(), []*mailbox.Settle{s.ack(first)}); err != nil {
				t.Fatal(err)
			}
			lose(s.proxy, 1)
			s.SettleLater([]*mailbox.Settle{s.ack(first), s.ack(second)})
			eventually.True(t, "to be told of it", func() bool { return slices.Contains(s.ended(), second) })
			publish(t, s.Store, s.note("third"), "r")
			if got := s.ended(); !slices.Equal(got, []int64{first, second}) {
				t.Errorf("told that %v ended, want %v and %v once", got, first, second)
			}
		})
	}
}

// A recall uses the slow statement, like everything but plain acknowledgements.
func TestRecallWithLostAnswerIsReportedOnce(t *testing.T) {
	s := openShaky(t)
	q := s.ack(s.told.All().Stored[0].Pos)
	q.As = notification.Recalled
	s.proxy.LoseAnswers(1)
	if err := s.Settle(t.Context(), []*mailbox.Settle{q}); !errors.Is(err, mailbox.ErrAway) {
		t.Errorf("%v, want that the store is away", err)
	}
	if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleAlready {
		t.Errorf("recalled again: outcome %d, %v, want that it was settled already", q.Outcome, err)
	}
	if got := s.told.All().Settled; len(got) != 1 || got[0].As != notification.Recalled {
		t.Errorf("told of %+v, want one recall", got)
	}
}

func TestDueAndExpiredCopiesAreReportedOnceDespiteLostCommitAnswer(t *testing.T) {
	s := openShaky(t)
	n := s.note("later")
	n.SendAt = s.clock.Now().Add(time.Minute)
	publish(t, s.Store, n, "r")
	s.clock.Advance(time.Minute)
	s.proxy.LoseAnswers(1)
	if _, err := s.Due(t.Context(), s.clock.Now()); !errors.Is(err, mailbox.ErrAway) {
		t.Errorf("%v, want that the store is away", err)
	}
	if _, err := s.Due(t.Context(), s.clock.Now()); err != nil {
		t.Error(err)
	}
	eventually.True(t, "to be told of it", func() bool { return len(s.told.All().Due) > 0 })
	s.clock.Advance(time.Hour)
	if _, err := s.Prune(t.Context(), time.Time{}); err != nil { // makes the tables of the next hour now, so that the lost commit is not the one that makes them
		t.Fatal(err)
	}
	s.proxy.LoseAnswers(1)
	if _, err := s.Expire(t.Context(), s.clock.Now()); !errors.Is(err, mailbox.ErrAway) {
		t.Errorf("%v, want that the store is away", err)
	}
	if _, err := s.Expire(t.Context(), s.clock.Now()); err != nil {
		t.Error(err)
	}
	eventually.True(t, "to be told of them", func() bool { return len(s.told.All().Settled) > 0 })
	publish(t, s.Store, s.note("last"), "r")
	if all := s.told.All(); len(all.Due) != 1 || all.Due[0].Seq != 2 || len(all.Settled) != 2 {
		t.Errorf("told of %+v due and of %+v expired, want one, and two", all.Due, all.Settled)
	}
}

// A stopped server may read a COMMIT only after a check has looked for its trace. Such a commit must fail.
func TestCommitAfterItsLookupIsRefused(t *testing.T) {
	s := openShaky(t)
	pos := s.told.All().Stored[0].Pos
	release := s.proxy.HoldCommit()
	if err := s.Settle(t.Context(), []*mailbox.Settle{s.ack(pos)}); !errors.Is(err, mailbox.ErrAway) {
		t.Errorf("%v, want that the store is away", err)
	}
	publish(t, s.Store, s.note("b"), "r") // the outcome of the lost commit is checked before this one
	release()
	if got, err := s.Lookup(t.Context(), storetest.App, "first", "r"); err != nil || got[0].Status == notification.Acked {
		t.Errorf("%+v, %v: it was acknowledged and nobody told", got, err)
	}
	q := s.ack(pos)
	if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
		t.Errorf("acknowledged again: outcome %d, %v", q.Outcome, err)
	}
	if got := s.ended(); !slices.Equal(got, []int64{pos}) {
		t.Errorf("told that %v ended, want %d once", got, pos)
	}
}

// A replica that took over without the last commits assigns new recipients keys that the lost recipients had.
func TestAfterAFailoverNobodyGetsWhatIsForOthers(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	s := openOver(t, server.Proxy(t), "")
	replica := server.Replica(t)
	names := func(prefix string) (list []string) { // more names than a sequence allocates ahead
		for i := range 100 {
			list = append(list, fmt.Sprint(prefix, i))
		}
		return list
	}
	publish(t, s.Store, s.note("lost"), names("before")...)
	s.proxy.FailOver(replica)
	s.fail(s.note("a"))
	other := s.cfg
	other.URL = replica.URL()
	publish(t, open(t, other), s.note("theirs"), names("after")...)
	s.publish(s.note("ours"), names("before")...)
	for prefix, want := range map[string]string{"before": "ours", "after": "theirs"} {
		for _, name := range names(prefix) {
			if items := s.history(name); len(items) != 1 || items[0].ID != want || items[0].Seq != 1 {
				t.Fatalf("%s has %+v, want %s as the first", name, items, want)
			}
		}
	}
}
