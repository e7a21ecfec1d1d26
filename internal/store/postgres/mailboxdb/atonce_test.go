package mailboxdb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// fresh publishes with an id that the server has just made.
func fresh(now time.Time, id string, to string) *mailbox.Append {
	return &mailbox.Append{N: note(now, id), To: []string{to}, Fresh: true}
}

// In one commit, the recipients that have room get their notifications, and the full one's publish fails.
func TestFullMailboxRefusesOnlyItsOwnPublishes(t *testing.T) {
	s := open(t, mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), MaxPending: 2, Lanes: 1})
	told := &storetest.Recorder{}
	s.Observe(told)
	for i := range 4 {
		batch := []*mailbox.Append{fresh(time.Now(), fmt.Sprint("full-", i), "full"), fresh(time.Now(), fmt.Sprint("other-", i), fmt.Sprint("r", i))}
		if err := s.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if got := batch[0].Results[0].Err; errors.Is(got, mailbox.ErrFull) != (i >= 2) {
			t.Errorf("publish %d to a mailbox with room for two: %v", i+1, got)
		}
		if got := batch[1].Results[0]; got.Err != nil || got.Status != notification.Stored || !got.ExpiresAt.Equal(batch[1].N.ExpiresAt) {
			t.Errorf("publish beside it: %+v", got)
		}
	}
	first := told.All().Stored[0]
	q := &mailbox.Settle{App: storetest.App, Recipient: first.Recipient, ID: first.N.ID, Pos: first.Pos, As: notification.Acked, At: time.Now()}
	if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
		t.Fatalf("outcome %d, %v", q.Outcome, err)
	}
	again := fresh(time.Now(), "again", first.Recipient)
	if err := s.Append(t.Context(), []*mailbox.Append{again}); err != nil || again.Results[0].Err != nil {
		t.Errorf("publish after an acknowledgement: %v, %+v", err, again.Results)
	}
	if n := len(told.All().Stored); n != 7 {
		t.Errorf("told of %d notifications, want 7", n)
	}
}

func TestFreshPublishToRecipientErasedByAnotherNodeBeginsAnew(t *testing.T) {
	clock := testclock.New()
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
	a, b := open(t, cfg), open(t, cfg)
	told := &storetest.Recorder{}
	a.Observe(told)
	for _, id := range []string{"before", "after"} {
		p := fresh(clock.Now(), id, "r")
		if err := a.Append(t.Context(), []*mailbox.Append{p}); err != nil || p.Results[0].Err != nil {
			t.Fatalf("%s: %v, %+v", id, err, p.Results)
		}
		if id == "before" {
			if err := b.Erase(t.Context(), storetest.App, "r"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := told.All().Stored; len(got) != 2 || got[1].Seq != 1 || got[1].Pos <= got[0].Pos {
		t.Errorf("told of %+v, want the second with seq 1 after the first's position", got)
	}
}

// Nodes that publish to the same recipients at once number them without a gap, and positions grow with the numbers.
func TestFreshPublishesOfTwoNodesAreNumberedInOrder(t *testing.T) {
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	nodes := []*mailboxdb.Store{open(t, cfg), open(t, cfg)}
	const each, recipients = 60, 3
	var all errgroup.Group
	for g := range 2 * recipients {
		all.Go(func() error {
			for i := range each {
				var batch []*mailbox.Append
				for r := range recipients {
					batch = append(batch, fresh(time.Now(), fmt.Sprintf("%d-%d", g, i), fmt.Sprint("r", (g+r)%recipients)))
				}
				if err := nodes[g%2].Append(context.Background(), batch); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	for r := range recipients {
		res, err := nodes[0].Pending(t.Context(), []mailbox.PendingQuery{{App: storetest.App, Recipient: fmt.Sprint("r", r), Limit: 10_000}})
		if err != nil {
			t.Fatal(err)
		}
		items := res[0].Items
		grows := slices.IsSortedFunc(items, func(a, b mailbox.Item) int { return int(a.Pos - b.Pos) })
		if n := 2 * recipients * each; len(items) != n || items[0].Seq != 1 || items[n-1].Seq != uint64(n) || !grows {
			t.Errorf("r%d has %d, numbered %d to %d, in the order of positions: %t", r, len(items), items[0].Seq, items[len(items)-1].Seq, grows)
		}
	}
}

// Commits of one round trip pass over a recipient that another node keeps locked, like others.
func TestFreshPublishesGoOnBesideARecipientThatIsLocked(t *testing.T) {
	s, url, schema := stuckStore(t, false)
	publish(t, s, note(time.Now(), "first"), "stuck")
	release := hold(t, url, "SELECT key FROM "+schema+".recipient WHERE name = 'stuck' FOR UPDATE")
	var answers errgroup.Group
	answers.Go(func() error {
		return s.Append(context.Background(), []*mailbox.Append{fresh(time.Now(), "second", "stuck")})
	})
	for i := range 20 {
		if err := s.Append(t.Context(), []*mailbox.Append{fresh(time.Now(), fmt.Sprint("other-", i), fmt.Sprint("r", i))}); err != nil {
			t.Errorf("publish beside it: %v", err)
		}
	}
	if err := answers.Wait(); !errors.Is(err, mailbox.ErrAway) {
		t.Errorf("the publish to the locked recipient: %v, want that it is to be tried again", err)
	}
	release()
	if err := s.Append(t.Context(), []*mailbox.Append{fresh(time.Now(), "third", "stuck")}); err != nil {
		t.Error(err)
	}
}
