package mailboxdb_test

import (
	"context"
	"fmt"
	"slices"
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

// The test repeats one hour's traffic every hour for days, with upkeep as often as on a server: copies are kept exactly as long as the
// retention period, and no table grows.
func TestDiskDoesNotGrowOverDays(t *testing.T) {
	const retain, days, each = 24 * time.Hour, 4, 100
	hour := time.Duration(thorough.Rounds(4, 1)) * time.Hour // fewer tables show the same
	daily := int(24 * time.Hour / hour)
	const most = each * 4096 // the most bytes that an hour's tables take: they stay one hour longer if autovacuum holds their lock when they should be dropped
	clock := testclock.New()
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
	cfg.ShortHours(hour)
	s := open(t, cfg)
	sizes := make([]int64, days*daily)
	waits := 0
	for h := range sizes {
		told := &storetest.Recorder{}
		s.Observe(told)
		for i := range each / 10 {
			n := note(clock.Now(), fmt.Sprintf("h%d-%d", h, i))
			n.ExpiresAt = n.CreatedAt.Add(30 * 24 * time.Hour)
			n.Content.Body = string(make([]byte, 2000))
			var to []string
			for r := range 10 {
				to = append(to, fmt.Sprint("r", (i*10+r)%50))
			}
			publish(t, s, n, to...)
		}
		var acks []*mailbox.Settle
		for _, it := range told.All().Stored {
			if h > 0 || len(acks) < each-1 { // one copy stays pending from the first hour to the last
				acks = append(acks, &mailbox.Settle{App: storetest.App, Recipient: it.Recipient, ID: it.N.ID, Pos: it.Pos, As: notification.Acked, At: clock.Now()})
			}
		}
		waits += len(told.All().Stored) - len(acks)
		if err := s.Settle(t.Context(), acks); err != nil {
			t.Fatal(err)
		}
		clock.Advance(hour)
		for more := true; more; {
			var err error
			if more, err = s.Prune(t.Context(), clock.Now().Add(-retain)); err != nil {
				t.Fatal(err)
			}
		}
		if every := daily / 4; h%every == every-1 {
			sizes[h] = measure(t, cfg)
		}
	}
	if before, after := slices.Max(sizes[2*daily:3*daily]), slices.Max(sizes[3*daily:]); after > before+most {
		t.Errorf("up to %d bytes on the third day, %d on the fourth", before, after)
	}
	if st := s.Stats(); st.Pending != int64(waits) {
		t.Errorf("%d wait, want %d", st.Pending, waits)
	}
	checkKept(t, s, clock.Now().Add(-retain), 2*daily)
}

// checkKept checks that a recipient's history holds the copies that retention keeps.
func checkKept(t *testing.T, s *mailboxdb.Store, since time.Time, want int) {
	t.Helper()
	kept := 0
	for cursor, first := int64(0), true; first || cursor != 0; first = false {
		items, next, err := s.History(t.Context(), storetest.App, "r7", 0, 13, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			kept++
			if !it.SettledAt.IsZero() && it.SettledAt.Before(since) {
				t.Errorf("%s is still shown", it.ID)
			}
		}
		cursor = next
	}
	if kept != want {
		t.Errorf("%d in the history of a day, want %d", kept, want)
	}
}

// measure returns the size of all tables in bytes, and checks that there are no more tables than there should be.
func measure(t *testing.T, cfg mailboxdb.Config) (bytes int64) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	// Autovacuum checks once a minute, so on a server it would have run by now. Vacuum also creates free space maps, here for all tables:
	// the comparison needs them for all tables or for none.
	var tables string
	err = c.QueryRow(t.Context(), "SELECT string_agg(oid::regclass::text, ',') FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'", cfg.Schema).Scan(&tables)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "VACUUM "+tables); err != nil {
		t.Fatal(err)
	}
	var hours, days int
	err = c.QueryRow(t.Context(), `SELECT sum(pg_total_relation_size(oid))::bigint, count(*) FILTER (WHERE relname ~ '^note_'), count(*) FILTER (WHERE relname ~ '^stub_')
		FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'`, cfg.Schema).Scan(&bytes, &hours, &days)
	if err != nil {
		t.Fatal(err)
	}
	if hours > 3 || days > 3 {
		t.Errorf("there are the tables of %d hours and %d days", hours, days)
	}
	return bytes
}

// Sealing waits for other users of an hour's table, such as autovacuum. It pauses between tries, so that later users get the lock.
func TestAnHourWhoseTableIsLockedIsSealedWhenItIsFree(t *testing.T) {
	clock := testclock.New()
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
	s := open(t, cfg)
	publish(t, s, note(clock.Now(), "a"), "r")
	if err := s.Settle(t.Context(), []*mailbox.Settle{{App: storetest.App, Recipient: "r", ID: "a", As: notification.Acked, At: clock.Now()}}); err != nil {
		t.Fatal(err)
	}
	other := newOtherNode(t, cfg)
	other.exec(fmt.Sprintf("LOCK TABLE note_%d IN SHARE UPDATE EXCLUSIVE MODE", other.hour))
	clock.Advance(2 * time.Hour)
	sealed := make(chan error, 1)
	go func() { sealed <- s.Seal(context.Background()) }()
	for _, want := range []bool{true, false} { // somebody holds locks for a while, and then releases them
		for waits := !want; waits != want; {
			select {
			case err := <-sealed:
				t.Fatalf("sealed while the table was locked: %v", err)
			default:
			}
			waits = other.waitedFor()
		}
	}
	if err := other.tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-sealed; err != nil {
		t.Error(err)
	}
}
