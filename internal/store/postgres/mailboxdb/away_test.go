package mailboxdb_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// PostgreSQL is killed repeatedly while publishers run: no acknowledged publish is lost, and publishing continues.
func TestPostgreSQLKilledUnderPublishers(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{Fsync: true})
	s := open(t, mailboxdb.Config{URL: server.URL(), MaxPending: 1 << 20}) // however many the machine publishes, no mailbox is full
	stop := make(chan struct{})
	var mu sync.Mutex
	answered := map[string][]string{} // ids by recipient, in order
	var publishers sync.WaitGroup
	for p := range 4 {
		publishers.Go(func() {
			to := fmt.Sprint("r", p)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				n := note(time.Now(), fmt.Sprintf("p%d-%d", p, i))
				if err := s.Append(context.Background(), []*mailbox.Append{{N: n, To: []string{to}}}); err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				mu.Lock()
				answered[to] = append(answered[to], n.ID)
				mu.Unlock()
			}
		})
	}
	count := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, ids := range answered {
			n += len(ids)
		}
		return n
	}
	for range 3 {
		before := count()
		eventually.True(t, "publishing", func() bool { return count() > before+50 })
		server.Kill()
		server.Restart(t)
	}
	before := count()
	eventually.True(t, "publishing after the last kill", func() bool { return count() > before+50 })
	close(stop)
	publishers.Wait()
	for to, ids := range answered {
		res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: storetest.App, Recipient: to, Limit: 1 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		there, last := map[string]bool{}, uint64(0)
		for _, it := range res[0].Items {
			if it.Seq != last+1 {
				t.Errorf("%s has seq %d after %d", to, it.Seq, last)
			}
			there[it.N.ID], last = true, it.Seq
		}
		for _, id := range ids {
			if !there[id] {
				t.Errorf("%s, which was answered, is lost", id)
			}
		}
	}
}

// Publishes while PostgreSQL is away do not each try to connect: such tries would delay its recovery.
func TestRetriesDuringPostgreSQLOutageAreSpaced(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	s := open(t, mailboxdb.Config{URL: server.URL()})
	publish(t, s, note(time.Now(), "a"), "r")
	server.Kill()
	const tries, apart = 4, 50 * time.Millisecond
	begun := time.Now()
	for range tries {
		if err := s.Append(t.Context(), []*mailbox.Append{{N: note(time.Now(), "b"), To: []string{"r"}}}); !errors.Is(err, mailbox.ErrAway) {
			t.Errorf("a publish while PostgreSQL is away: %v", err)
		}
	}
	if took := time.Since(begun); took < (tries-1)*apart {
		t.Errorf("%d tries took %s", tries, took)
	}
	server.Restart(t)
	eventually.True(t, "publishing again", func() bool {
		return s.Append(t.Context(), []*mailbox.Append{{N: note(time.Now(), "b"), To: []string{"r"}}}) == nil
	})
}

// Acknowledgements without a waiting caller are retained while PostgreSQL is away.
func TestAcknowledgementsOutliveAnOutage(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	s := open(t, mailboxdb.Config{URL: server.URL()})
	told := &storetest.Recorder{}
	s.Observe(told)
	publish(t, s, note(time.Now(), "a"), "r")
	it := told.All().Stored[0]
	server.Kill()
	if err := s.Append(t.Context(), []*mailbox.Append{{N: note(time.Now(), "b"), To: []string{"r"}}}); err == nil {
		t.Error("a publish was answered while PostgreSQL was away")
	}
	if err := s.Ready(t.Context()); err == nil {
		t.Error("the store says that it is ready while PostgreSQL is away")
	}
	s.SettleLater([]*mailbox.Settle{{App: storetest.App, Recipient: "r", ID: "a", Pos: it.Pos, As: notification.Acked, At: time.Now()}})
	server.Restart(t)
	eventually.True(t, "the acknowledgement", func() bool { return len(told.All().Settled) == 1 })
}

// With ack all, a notification waits for the known devices, so a crash must not lose one.
func TestKnownDeviceOutlivesACrashOfTheDatabase(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{Fsync: true})
	cfg := mailboxdb.Config{URL: server.URL(), Schema: server.Schema(t)}
	s := open(t, cfg)
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()"} { // settings that make PostgreSQL delay writes that need not be on disk
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s.Seen([]mailbox.Seen{{App: storetest.App, Recipient: "r", Device: "phone", At: time.Now()}})
	devices := func(conn *pgx.Conn) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM "+cfg.Schema+".device").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventually.True(t, "the device is known", func() bool { return devices(conn) == 1 })
	server.Kill()
	server.Restart(t)
	if conn, err = pgx.Connect(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	if n := devices(conn); n != 1 {
		t.Errorf("%d devices are known after the crash", n)
	}
	conn.Close(context.Background())
}

func TestADatabaseThatDoesNotAnswerIsNotReady(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	s := open(t, mailboxdb.Config{URL: server.URL()})
	server.Stop()
	err := s.Ready(t.Context())
	server.Continue()
	if !errors.Is(err, mailbox.ErrAway) || !strings.Contains(err.Error(), "did not answer within 2s") {
		t.Errorf("it is not ready because of %v, want that it did not answer within 2s", err)
	}
}
