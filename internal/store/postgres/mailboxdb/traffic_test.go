package mailboxdb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/testclock"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// Two nodes publish, settle and read while both seal hours that pass within moments: callers must not notice. Time advances with each
// sealed hour, since otherwise tables would pile up on a machine that is too slow.
func TestHoursAreSealedUnderTraffic(t *testing.T) {
	clock := testclock.New()
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
	cfg.Patient()
	nodes := []*mailboxdb.Store{open(t, cfg), open(t, cfg)}
	began := clock.Now()
	const publishers = 4
	each, hours := thorough.Rounds(40, 120), thorough.Rounds(2, 5)
	ctx, stop := context.WithCancel(t.Context())
	var upkeep, traffic sync.WaitGroup
	upkeep.Go(func() {
		for ctx.Err() == nil {
			var both sync.WaitGroup
			for _, s := range nodes {
				both.Go(func() {
					if _, err := s.Prune(ctx, clock.Now().Add(-days)); err != nil && ctx.Err() == nil {
						t.Errorf("prune: %v", err)
					}
				})
			}
			both.Wait()
			if clock.Now().Sub(began) < days/2 { // the first copies must not expire, even on a slow machine
				clock.Advance(10 * time.Minute)
			}
		}
	})
	var stored [publishers / 2]atomic.Int64
	for p := range publishers {
		traffic.Go(func() {
			s := nodes[p%2]
			to := fmt.Sprint("r", p/2) // both nodes publish to both
			i := 0
			for begun := clock.Now(); i < each || i%3 != 0 || clock.Now().Sub(begun) < time.Duration(hours+2)*time.Hour; i++ {
				work(t, s, to, fmt.Sprintf("p%d-%d", p, i), i)
			}
			stored[p/2].Add(int64(i))
		})
	}
	traffic.Wait()
	stop()
	upkeep.Wait()
	if n := sealedHours(t, cfg); n < hours {
		t.Errorf("only %d hours were sealed", n)
	}
	for r := range stored {
		checkTraffic(t, nodes[r%2], fmt.Sprint("r", r), int(stored[r].Load()))
	}
}

// days is longer than any test takes by its clock.
const days = 100 * 24 * time.Hour

// sealedHours counts hours whose settled copies are sealed, by their stubs.
func sealedHours(t *testing.T, cfg mailboxdb.Config) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var tables []string
	err = c.QueryRow(t.Context(), "SELECT coalesce(array_agg(oid::regclass::text), '{}') FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r' AND relname ~ '^stub_'", cfg.Schema).Scan(&tables)
	if err != nil {
		t.Fatal(err)
	}
	for _, day := range tables {
		var hours int
		if err := c.QueryRow(t.Context(), fmt.Sprintf("SELECT count(DISTINCT created_at / %d) FROM %s", time.Hour.Milliseconds(), day)).Scan(&hours); err != nil {
			t.Fatal(err)
		}
		n += hours
	}
	return n
}

// work publishes one notification, looks it up, and settles it by position or by id, or not at all, depending on i.
func work(t *testing.T, s *mailboxdb.Store, to, id string, i int) {
	t.Helper()
	fresh := func() *notification.Notification {
		n := note(s.Clock()(), id)
		n.ExpiresAt = n.CreatedAt.Add(days)
		return n
	}
	shared := fmt.Sprint(to, "-beside-", id)
	publish(t, s, fresh(), to, shared)
	if res := publish(t, s, fresh(), to); len(res) != 1 || !res[0].Duplicate {
		t.Errorf("%s again: %+v, want a duplicate", id, res)
	}
	recs, err := s.Lookup(t.Context(), storetest.App, id, to)
	if err != nil || len(recs) != 1 || recs[0].Status != notification.Stored {
		t.Errorf("look up %s: %+v, %v", id, recs, err)
		return
	}
	q := &mailbox.Settle{App: storetest.App, Recipient: to, ID: id, As: notification.Acked, At: s.Clock()()}
	switch i % 3 {
	case 0:
		q.Pos = recs[0].Pos
		fallthrough
	case 1:
		if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
			t.Errorf("settle %s: outcome %d, %v", id, q.Outcome, err)
		}
	}
	res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: storetest.App, Recipient: shared}, {App: storetest.App, Recipient: to, Limit: 10}})
	if err != nil || len(res[0].Items) != 1 || res[0].Items[0].N.ID != id || res[0].Items[0].N.Content.Title != "T" {
		t.Errorf("pending of %s: %+v, %v", shared, res, err)
	}
	if _, _, err := s.History(t.Context(), storetest.App, to, 0, 20, 0); err != nil {
		t.Errorf("history of %s: %v", to, err)
	}
}

// checkTraffic checks that a recipient has all copies that work stored, each once and with the right status.
func checkTraffic(t *testing.T, s *mailboxdb.Store, to string, want int) {
	t.Helper()
	seqs, open := map[uint64]string{}, 0
	for cursor, first := int64(0), true; first || cursor != 0; first = false {
		items, next, err := s.History(t.Context(), storetest.App, to, 0, 100, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			if before := seqs[it.Seq]; before != "" {
				t.Errorf("%s has %s and %s with the number %d", to, before, it.ID, it.Seq)
			}
			seqs[it.Seq] = it.ID
			if it.Status == notification.Stored {
				open++
			}
		}
		cursor = next
	}
	for seq := range uint64(want) {
		if seqs[seq+1] == "" {
			t.Errorf("%s has nothing with the number %d", to, seq+1)
		}
	}
	if len(seqs) != want || open != want/3 {
		t.Errorf("%s has %d in its history, of which %d are open; want %d and %d", to, len(seqs), open, want, want/3)
	}
	res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: storetest.App, Recipient: to}})
	if err != nil || len(res[0].Items) != want/3 || res[0].LastSeq != uint64(want) {
		t.Errorf("%d pending of %s up to %d, %v; want %d up to %d", len(res[0].Items), to, res[0].LastSeq, err, want/3, want)
	}
}

// A node that caches a recipient's key notices that another node has erased the recipient.
func TestRecipientErasedByAnotherNodeBeginsAnew(t *testing.T) {
	clock := testclock.New()
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
	a, b := open(t, cfg), open(t, cfg)
	told := &storetest.Recorder{}
	a.Observe(told)
	publish(t, a, note(clock.Now(), "old"), "r")
	if err := b.Erase(t.Context(), storetest.App, "r"); err != nil {
		t.Fatal(err)
	}
	q := &mailbox.Settle{App: storetest.App, Recipient: "r", ID: "old", Pos: told.All().Stored[0].Pos, As: notification.Acked, At: clock.Now()}
	if err := a.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleUnknown {
		t.Errorf("an acknowledgement of what was erased: outcome %d, %v", q.Outcome, err)
	}
	if err := b.Erase(t.Context(), storetest.App, "r"); !errors.Is(err, mailbox.ErrNotFound) {
		t.Errorf("erased again: %v", err)
	}
	publish(t, a, note(clock.Now(), "old"), "r")
	stored := told.All().Stored
	if len(stored) != 2 || stored[1].Seq != 1 || stored[1].Pos <= stored[0].Pos {
		t.Errorf("told of %+v, want the second with seq 1 after the first's position", stored)
	}
}
