package mailboxdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// crowd is a store whose tables hold many dead rows: another session's open transaction keeps vacuum from removing them.
type crowd struct {
	*mailboxdb.Store
	t     *testing.T
	cfg   mailboxdb.Config
	clock *testclock.Clock
	told  *storetest.Recorder
	conn  *pgx.Conn
	open  pgx.Tx
	looks time.Time
}

const crowdRows = 60_000

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	server := pgtest.Start(t, pgtest.Options{}) // a server of its own, on which no other session has a transaction open
	c := &crowd{t: t, clock: testclock.New(), told: &storetest.Recorder{}, looks: time.Now()}
	c.cfg = mailboxdb.Config{URL: server.URL(), Schema: "mailboxes", Now: c.clock.Now}
	c.cfg.Patient()
	c.Store = open(t, c.cfg)
	c.Observe(c.told)
	var err error
	if c.conn, err = pgx.Connect(t.Context(), c.cfg.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.conn.Close(context.Background()) })
	holder, err := pgx.Connect(t.Context(), c.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Close(context.Background()) })
	if c.open, err = holder.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.open.Exec(t.Context(), "SELECT count(*) FROM pg_class"); err != nil {
		t.Fatal(err)
	}
	c.exec("SET search_path = mailboxes")
	c.exec(`INSERT INTO pending (recipient, pos, seq, expires_at, bytes, flags) SELECT -i % 100, i, i, $1::bigint + i, 200, 0 FROM generate_series(1, $2::integer) i`,
		c.clock.Now().Add(time.Hour).UnixMilli(), crowdRows)
	c.exec("DELETE FROM pending WHERE recipient <= 0")
	c.exec("VACUUM pending") // which counts, as autovacuum does
	eventually.True(t, "to have dead rows counted", func() bool {
		return c.number("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'pending'::regclass") >= crowdRows
	})
	return c
}

func (c *crowd) exec(sql string, args ...any) {
	c.t.Helper()
	if _, err := c.conn.Exec(c.t.Context(), sql, args...); err != nil {
		c.t.Fatal(err)
	}
}

// look makes the store measure its tables often enough that it may rewrite one.
func (c *crowd) look() {
	c.t.Helper()
	for range 10 {
		c.looks = c.looks.Add(time.Hour)
		if err := c.Shrink(c.t.Context(), c.looks); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *crowd) number(sql string) (n int64) {
	c.t.Helper()
	if err := c.conn.QueryRow(c.t.Context(), sql).Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *crowd) size() int64 { return c.number("SELECT pg_total_relation_size('pending')") }

func TestATableThatGrewWhileATransactionWasOpenShrinks(t *testing.T) {
	c := newCrowd(t)
	publish(t, c.Store, note(c.clock.Now(), "a"), "r", "s")
	const file = "SELECT pg_relation_filenode('pending')::bigint"
	grown, before := c.size(), c.number(file)
	c.look()
	if c.number(file) != before {
		t.Error("the table was written anew with all that is dead in it: the transaction is still open")
	}
	if err := c.open.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "to have the table shrink", func() bool {
		c.exec("VACUUM pending")
		c.look()
		return c.size() < grown/20
	})
	publish(t, c.Store, note(c.clock.Now(), "b"), "r")
	res, err := c.Pending(t.Context(), []mailbox.PendingQuery{{App: storetest.App, Recipient: "r"}, {App: storetest.App, Recipient: "s"}})
	if err != nil || len(res[0].Items) != 2 || len(res[1].Items) != 1 {
		t.Fatalf("%+v, %v; want what was published before and after", res, err)
	}
	for _, it := range res[0].Items {
		q := &mailbox.Settle{App: storetest.App, Recipient: "r", Pos: it.Pos, As: notification.Acked, At: c.clock.Now()}
		if err := c.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
			t.Errorf("settle %s: outcome %d, %v", it.N.ID, q.Outcome, err)
		}
	}
}

// The planner knows only that pending has few live rows: its plan must not read the dead ones.
func TestDeadRowsAreNotRead(t *testing.T) {
	c := newCrowd(t)
	publish(t, c.Store, note(c.clock.Now(), "a"), "r", "s")
	c.exec("VACUUM ANALYZE pending")
	const read = "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes WHERE relid = 'pending'::regclass"
	before := c.number(read)
	item := c.told.All().Stored[0]
	at := mailbox.Address{App: storetest.App, Recipient: item.Recipient}
	if _, err := c.Heads(t.Context(), []mailbox.Address{at}); err != nil {
		t.Error(err)
	}
	if res, err := c.Pending(t.Context(), []mailbox.PendingQuery{{App: at.App, Recipient: at.Recipient}}); err != nil || len(res[0].Items) != 1 {
		t.Errorf("pending: %+v, %v", res, err)
	}
	if items, err := c.Items(t.Context(), []mailbox.Ref{{App: at.App, Recipient: at.Recipient, Pos: item.Pos}}); err != nil || items[0] == nil {
		t.Errorf("items: %+v, %v", items, err)
	}
	if _, _, err := c.History(t.Context(), at.App, at.Recipient, 0, 10, 0); err != nil {
		t.Error(err)
	}
	if again := publish(t, c.Store, note(c.clock.Now(), "a"), at.Recipient); !again[0].Duplicate {
		t.Errorf("%+v, want a duplicate", again[0])
	}
	for i, as := range []notification.Status{notification.Acked, notification.Recalled} { // settled by the quick statement, and by the slow one
		it := c.told.All().Stored[i]
		q := &mailbox.Settle{App: at.App, Recipient: it.Recipient, Pos: it.Pos, As: as, At: c.clock.Now()}
		if err := c.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
			t.Errorf("settle: outcome %d, %v", q.Outcome, err)
		}
	}
	if err := c.Close(); err != nil { // sessions report their statistics when they end
		t.Fatal(err)
	}
	eventually.True(t, "to have its sessions end", func() bool {
		return c.number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'godwit' AND backend_type = 'client backend'") == 0
	})
	if n := c.number(read) - before; n > crowdRows/10 {
		t.Errorf("%d entries of indexes were read for a few copies", n)
	}
}

// While many rows are dead, nodes search for due copies only until the time of their next search.
func TestExpiredCopiesAreFoundAmongDeadRows(t *testing.T) {
	c := newCrowd(t)
	c.look()
	n := note(c.clock.Now(), "a")
	n.ExpiresAt = n.CreatedAt.Add(10 * time.Second)
	publish(t, c.Store, n, "r")
	expire := func(want time.Time) {
		t.Helper()
		if next, err := c.Expire(t.Context(), c.clock.Now()); err != nil || !next.Equal(want) {
			t.Errorf("come again at %s, %v; want %s", next, err, want)
		}
	}
	expire(c.clock.Now().Add(c.LookAgain()))
	c.clock.Advance(10*time.Second - c.LookAgain()/2)
	expire(n.ExpiresAt)
	c.clock.Advance(time.Hour)
	expire(c.clock.Now().Add(c.LookAgain()))
	if all := c.told.All().Settled; len(all) != 1 || all[0].As != notification.Expired {
		t.Errorf("told of %+v, want one that expired", all)
	}
}
