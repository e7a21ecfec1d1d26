package mailboxdb_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
)

// BenchmarkPublishAndAck publishes to 100,000 recipients and acknowledges everything through SettleLater, as sessions do. Every publish is
// on disk before it is answered. The benchmark reports the rate, and its cost for PostgreSQL: CPU time, bytes of log and commits.
func BenchmarkPublishAndAck(b *testing.B) {
	server := pgtest.Start(b, pgtest.Options{Fsync: true, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min",
	}})
	for _, publishers := range []int{512, 64, 1} {
		for _, size := range []int{200, 4096} {
			for _, fresh := range []bool{true, false} {
				b.Run(fmt.Sprintf("%dB/publishers=%d/fresh=%t", size, publishers, fresh), func(b *testing.B) {
					publishAndAck(b, server.Database(b), size, publishers, fresh)
				})
			}
		}
	}
}

func publishAndAck(b *testing.B, url string, size, publishers int, fresh bool) {
	s := open(b, mailboxdb.Config{URL: url})
	stop := storetest.Acknowledge(s)
	storetest.WarmUp(b, s)
	cost := startCost(b, url)
	began := s.Stats()
	b.ResetTimer()
	latencies := storetest.PublishAll(b, []mailbox.Store{s}, size, publishers, 100_000, fresh)
	storetest.NonePending(s)
	b.StopTimer()
	storetest.ReportPublishes(b, "pairs/s", latencies)
	b.ReportMetric(float64(b.N)/float64(s.Stats().Commits-began.Commits), "rows/commit")
	cost.report(b)
	stop()
}

// BenchmarkNodes makes publishers of one node or of two publish to the same 1,000 recipients.
func BenchmarkNodes(b *testing.B) {
	server := pgtest.Start(b, pgtest.Options{Fsync: true, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min",
	}})
	for _, nodes := range []int{1, 2} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			cfg := mailboxdb.Config{URL: server.Database(b)}
			var stores []mailbox.Store
			for range nodes {
				stores = append(stores, open(b, cfg))
			}
			stop := storetest.Acknowledge(stores...)
			storetest.WarmUp(b, stores[0])
			b.ResetTimer()
			latencies := storetest.PublishAll(b, stores, 200, 256, 1000, true)
			b.StopTimer()
			storetest.ReportPublishes(b, "publishes/s", latencies)
			stop()
		})
	}
}

// cost is the CPU time and the bytes of log that a server has used so far.
type cost struct {
	conn       *pgx.Conn
	postmaster int
	log        int64
	cpu        time.Duration
}

func startCost(b *testing.B, url string) *cost {
	c := &cost{}
	var err error
	if c.conn, err = pgx.Connect(b.Context(), url); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.conn.Close(context.Background()) })
	if _, err := c.conn.Exec(b.Context(), "CHECKPOINT"); err != nil {
		b.Fatal(err)
	}
	var dir string
	if err := c.conn.QueryRow(b.Context(), "SELECT current_setting('data_directory')").Scan(&dir); err != nil {
		b.Fatal(err)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		b.Fatal(err)
	}
	c.postmaster, _ = strconv.Atoi(string(bytes.Fields(pid)[0]))
	c.log, c.cpu = c.read(b)
	return c
}

// read returns the bytes of log written and the CPU time of all processes of the server.
func (c *cost) read(b *testing.B) (log int64, cpu time.Duration) {
	if err := c.conn.QueryRow(b.Context(), "SELECT pg_current_wal_insert_lsn() - '0/0'").Scan(&log); err != nil {
		b.Fatal(err)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if string(f[1]) != strconv.Itoa(c.postmaster) {
			continue
		}
		for _, i := range []int{11, 12} { // in user and kernel mode, in hundredths of a second
			ticks, _ := strconv.Atoi(string(f[i]))
			cpu += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return log, cpu
}

func (c *cost) report(b *testing.B) {
	log, cpu := c.read(b)
	b.ReportMetric(float64(log-c.log)/float64(b.N), "log-B/pair")
	b.ReportMetric(float64((cpu-c.cpu).Microseconds())/float64(b.N), "PG-µs/pair")
}

// BenchmarkReads reads from a store with 300,000 copies of the hour for 100,000 recipients; every third copy waits.
func BenchmarkReads(b *testing.B) {
	server := pgtest.Start(b, pgtest.Options{Settings: map[string]string{"shared_buffers": "512MB", "max_wal_size": "4GB"}})
	s := open(b, mailboxdb.Config{URL: server.URL(), MaxPending: 1 << 20})
	stop := storetest.Acknowledge(s)
	storetest.WarmUp(b, s)
	storetest.WarmUp(b, s)
	s.Observe(&storetest.Recorder{})
	for i := range 100 {
		a := &mailbox.Append{N: note(time.Now(), fmt.Sprint("waits", i)), Fresh: true}
		a.N.App, a.N.Content.Data = "bench", make([]byte, 1000)
		for j := range 1000 {
			a.To = append(a.To, fmt.Sprintf("driver-%d", i*1000+j))
		}
		if err := s.Append(b.Context(), []*mailbox.Append{a}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 20 {
		var batch []*mailbox.Append
		for j := range 1000 {
			batch = append(batch, &mailbox.Append{N: note(time.Now(), fmt.Sprintf("heavy%d-%d", i, j)), To: []string{"heavy"}, Fresh: true})
		}
		if err := s.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	stop()
	some := func(i int) (of []mailbox.Address, qs []mailbox.PendingQuery) {
		for k := range 256 {
			name := fmt.Sprintf("driver-%d", (i*7919+k*389)%100_000)
			of = append(of, mailbox.Address{App: "bench", Recipient: name})
			qs = append(qs, mailbox.PendingQuery{App: "bench", Recipient: name, Device: "phone", Limit: 64})
		}
		return of, qs
	}
	run := func(name string, do func(i int) error) {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if err := do(i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("heads of 256", func(i int) error {
		of, _ := some(i)
		_, err := s.Heads(b.Context(), of)
		return err
	})
	run("pending of 256", func(i int) error {
		_, qs := some(i)
		_, err := s.Pending(b.Context(), qs)
		return err
	})
	run("lookup", func(i int) error {
		_, err := s.Lookup(b.Context(), "bench", fmt.Sprint("waits", i%100), fmt.Sprintf("driver-%d", i%100*1000+5))
		return err
	})
	run("history", func(i int) error {
		_, _, err := s.History(b.Context(), "bench", fmt.Sprintf("driver-%d", i%100_000), 0, 50, 0)
		return err
	})
	run("history of one who has 20,000", func(int) error {
		_, _, err := s.History(b.Context(), storetest.App, "heavy", 0, 50, 0)
		return err
	})
	run("recipients", func(i int) error {
		_, _, err := s.Recipients(b.Context(), "bench", 100, fmt.Sprintf("driver-%d", i%100_000))
		return err
	})
	run("nothing due, nothing expired", func(int) error {
		if _, err := s.Due(b.Context(), time.Now()); err != nil {
			return err
		}
		_, err := s.Expire(b.Context(), time.Now())
		return err
	})
	run("stats", func(int) error {
		s.Stats()
		return nil
	})
}

// BenchmarkForeignTransaction publishes and acknowledges while a transaction is open from the start, so that no dead row can be removed.
func BenchmarkForeignTransaction(b *testing.B) {
	server := pgtest.Start(b, pgtest.Options{Fsync: true, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min",
	}})
	for _, held := range []bool{false, true} {
		b.Run(fmt.Sprintf("held=%t", held), func(b *testing.B) {
			url := server.Database(b)
			s := open(b, mailboxdb.Config{URL: url})
			stop := storetest.Acknowledge(s)
			storetest.WarmUp(b, s)
			cost := startCost(b, url)
			if held {
				c, err := pgx.Connect(b.Context(), url)
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close(context.Background())
				if _, err := c.Exec(b.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			storetest.PublishAll(b, []mailbox.Store{s}, 200, 64, 10_000, true)
			storetest.NonePending(s)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
			cost.report(b)
			stop()
		})
	}
}

// BenchmarkSeal seals an hour with many stored copies, a hundredth of which still waits.
func BenchmarkSeal(b *testing.B) {
	server := pgtest.Start(b, pgtest.Options{Fsync: true, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min",
	}})
	url := server.URL()
	var ahead atomic.Int64
	s := open(b, mailboxdb.Config{URL: url, MaxPending: 1 << 20, Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	told := &storetest.Recorder{}
	s.Observe(told)
	storetest.PublishAll(b, []mailbox.Store{s}, 200, 256, 100_000, true)
	var acks []*mailbox.Settle
	for i, it := range told.All().Stored {
		if i%100 != 0 {
			acks = append(acks, &mailbox.Settle{App: it.N.App, Recipient: it.Recipient, ID: it.N.ID, Pos: it.Pos, As: notification.Acked, At: it.N.CreatedAt})
		}
	}
	for chunk := range slices.Chunk(acks, 5000) {
		if err := s.Settle(b.Context(), chunk); err != nil {
			b.Fatal(err)
		}
	}
	cost := startCost(b, url)
	ahead.Store(int64(70 * time.Minute))
	b.ResetTimer()
	for more := true; more; {
		var err error
		if more, err = s.Prune(b.Context(), s.Clock()().Add(-24*time.Hour)); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	cost.report(b)
}

// BenchmarkCommit measures what a commit of k rows costs PostgreSQL: publishes with ids of the server, which take one round trip, publishes
// with ids that may be known, and acknowledgements. Each commit is alone, on one lane.
func BenchmarkCommit(b *testing.B) {
	server := pgtest.Start(b, pgtest.Options{Fsync: true, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min",
	}})
	for _, k := range []int{1, 2, 4, 8, 16, 64, 256} {
		for _, kind := range []string{"fresh", "known", "acks"} {
			b.Run(fmt.Sprintf("%s/rows=%d", kind, k), func(b *testing.B) { commitRows(b, server.Database(b), kind, k) })
		}
	}
}

func commitRows(b *testing.B, url, kind string, k int) {
	s := open(b, mailboxdb.Config{URL: url, Lanes: 1, MaxPending: 1 << 20})
	told := &storetest.Recorder{}
	s.Observe(told)
	id := 0
	publishRows := func() {
		batch := make([]*mailbox.Append, k)
		for i := range batch {
			id++
			batch[i] = &mailbox.Append{N: note(time.Now(), ulid.Make().String()), To: []string{fmt.Sprint("r", id%4096)}, Fresh: kind != "known"}
			batch[i].N.Content.Data = make([]byte, 200)
		}
		if err := s.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	for range 4096/k + 1 { // makes the recipients
		publishRows()
	}
	run := publishRows
	if kind == "acks" {
		for range b.N {
			publishRows()
		}
		stored := told.All().Stored
		run = func() {
			batch := make([]*mailbox.Settle, k)
			for i, it := range stored[:k] {
				batch[i] = &mailbox.Settle{App: it.N.App, Recipient: it.Recipient, ID: it.N.ID, Pos: it.Pos, As: notification.Acked, At: time.Now()}
			}
			stored = stored[k:]
			if err := s.Settle(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
		}
	}
	cost := startCost(b, url)
	b.ResetTimer()
	for range b.N {
		run()
	}
	b.StopTimer()
	log, cpu := cost.read(b)
	b.ReportMetric(float64((cpu-cost.cpu).Microseconds())/float64(b.N), "PG-µs/commit")
	b.ReportMetric(float64(log-cost.log)/float64(b.N), "log-B/commit")
}
