package mailboxdb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// hold makes another session lock rows until release is called, like a node that was stopped between two round trips.
func hold(t *testing.T, url, sql string, args ...any) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tag, err := tx.Exec(t.Context(), sql, args...)
	if err != nil || tag.RowsAffected() == 0 && !strings.HasPrefix(sql, "LOCK") {
		t.Fatalf("%s: %v, %d rows", sql, err, tag.RowsAffected())
	}
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func stuckStore(t *testing.T, patient bool) (s *mailboxdb.Store, url, schema string) {
	t.Helper()
	url, schema = pgtest.URL(t), pgtest.Schema(t)
	cfg := mailboxdb.Config{URL: url, Schema: schema, Lanes: 1}
	if patient {
		cfg.Patient()
	}
	return open(t, cfg), url, schema
}

func TestPublishesGoOnBesideARecipientThatIsLocked(t *testing.T) {
	s, url, schema := stuckStore(t, false)
	publish(t, s, note(time.Now(), "first"), "stuck")
	release := hold(t, url, "SELECT key FROM "+schema+".recipient WHERE name = 'stuck' FOR UPDATE")
	answers := make(chan error, 1)
	go func() {
		answers <- s.Append(context.Background(), []*mailbox.Append{{N: note(time.Now(), "second"), To: []string{"stuck", "beside"}}})
	}()
	eventually.True(t, "the publish to the locked recipient waits", func() bool { return s.Parked() == 1 })
	for i := range 20 {
		publish(t, s, note(time.Now(), fmt.Sprint("other-", i)), fmt.Sprint("r", i))
	}
	if err := <-answers; !errors.Is(err, mailbox.ErrAway) {
		t.Errorf("the publish to a recipient that stays locked: %v, want that it is to be tried again", err)
	}
	release()
	publish(t, s, note(time.Now(), "second"), "stuck")
}

func TestPublishesThatWaitedForALockedRecipientStayInOrder(t *testing.T) {
	s, url, schema := stuckStore(t, true)
	publish(t, s, note(time.Now(), "first"), "stuck")
	release := hold(t, url, "SELECT key FROM "+schema+".recipient WHERE name = 'stuck' FOR UPDATE")
	// The second operation is for another recipient, too. The third is for that recipient alone and must not overtake the second.
	to := [...][]string{{"stuck"}, {"stuck", "beside"}, {"beside"}}
	var waiting errgroup.Group
	for i := range to {
		waiting.Go(func() error {
			return s.Append(context.Background(), []*mailbox.Append{{N: note(time.Now(), fmt.Sprint("n", i)), To: to[i]}})
		})
		eventually.True(t, "the publish waits", func() bool { return s.Parked() == int64(i+1) })
	}
	release()
	if err := waiting.Wait(); err != nil {
		t.Error(err)
	}
	want := map[string][]string{"stuck": {"first", "n0", "n1"}, "beside": {"n1", "n2"}}
	for name, ids := range want {
		if got := pendingIDs(t, s, name); !slices.Equal(got, ids) {
			t.Errorf("%s has %v, want %v", name, got, ids)
		}
	}
}

// A node that has parked a publish checks the locked recipient first, and then makes recipients. Only after that may it lock any others.
func TestPublishesBesideAParkedOneAreNumberedOneAfterTheOther(t *testing.T) {
	s, url, schema := stuckStore(t, true)
	beside := open(t, mailboxdb.Config{URL: url, Schema: schema})
	publish(t, s, note(time.Now(), "first"), "stuck", "r")
	release := hold(t, url, "SELECT key FROM "+schema+".recipient WHERE name = 'stuck' FOR UPDATE")
	var waiting errgroup.Group
	waiting.Go(func() error {
		return s.Append(context.Background(), []*mailbox.Append{{N: note(time.Now(), "second"), To: []string{"stuck"}}})
	})
	eventually.True(t, "the publish waits", func() bool { return s.Parked() == 1 })
	const rounds = 100
	var all sync.WaitGroup
	for node, s := range []*mailboxdb.Store{s, beside} {
		all.Go(func() {
			for i := range rounds {
				id := fmt.Sprint(node, "-", i)
				publish(t, s, note(time.Now(), id), "r", "new-"+id)
			}
		})
	}
	all.Wait()
	release()
	if err := waiting.Wait(); err != nil {
		t.Error(err)
	}
	res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: storetest.App, Recipient: "r", Limit: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	for i, it := range res[0].Items {
		if it.Seq != uint64(i+1) {
			t.Fatalf("%s, of %d, has the number %d", it.N.ID, len(res[0].Items), it.Seq)
		}
	}
	if n := len(res[0].Items); n != 1+2*rounds {
		t.Errorf("%d copies, want %d", n, 1+2*rounds)
	}
}

// Upkeep holds a table's lock while it drops the table.
func TestPublishesWaitForATableThatIsLocked(t *testing.T) {
	s, url, schema := stuckStore(t, true)
	publish(t, s, note(time.Now(), "first"), "a")
	release := hold(t, url, "LOCK TABLE "+schema+".recipient")
	answers := make(chan error, 1)
	go func() {
		answers <- s.Append(context.Background(), []*mailbox.Append{{N: note(time.Now(), "second"), To: []string{"a"}}})
	}()
	eventually.True(t, "the publish waits", func() bool { return s.Parked() == 1 })
	release()
	if err := <-answers; err != nil {
		t.Errorf("a publish that waited: %v", err)
	}
}

func TestPublishesGiveUpATableThatStaysLocked(t *testing.T) {
	s, url, schema := stuckStore(t, false)
	defer hold(t, url, "LOCK TABLE "+schema+".recipient")()
	if err := s.Append(t.Context(), []*mailbox.Append{{N: note(time.Now(), "n"), To: []string{"a", "b"}}}); !errors.Is(err, mailbox.ErrAway) {
		t.Errorf("a publish to a table that stays locked: %v, want that it is to be tried again", err)
	}
}

func pendingIDs(t *testing.T, s *mailboxdb.Store, name string) (ids []string) {
	t.Helper()
	res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: storetest.App, Recipient: name, Limit: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range res[0].Items {
		ids = append(ids, it.N.ID)
	}
	return ids
}

func TestAcknowledgementsAndPublishesGoOnBesideALockedCopy(t *testing.T) {
	s, url, schema := stuckStore(t, true)
	told := &storetest.Recorder{}
	s.Observe(told)
	publish(t, s, note(time.Now(), "held"), "stuck")
	publish(t, s, note(time.Now(), "free"), "other")
	acks := make(map[string]*mailbox.Settle)
	for _, it := range told.All().Stored {
		acks[it.N.ID] = &mailbox.Settle{App: storetest.App, Recipient: it.Recipient, ID: it.N.ID, Pos: it.Pos, As: notification.Acked, At: time.Now()}
	}
	release := hold(t, url, "SELECT pos FROM "+schema+".pending WHERE pos = $1 FOR UPDATE", acks["held"].Pos)
	s.SettleLater([]*mailbox.Settle{acks["held"]})
	for i := range 20 {
		publish(t, s, note(time.Now(), fmt.Sprint("other-", i)), fmt.Sprint("r", i))
	}
	if err := s.Settle(t.Context(), []*mailbox.Settle{acks["free"]}); err != nil {
		t.Errorf("an acknowledgement of another copy: %v", err)
	}
	release()
	eventually.True(t, "the acknowledgement that waited", func() bool { return len(told.All().Settled) == 2 })
}
