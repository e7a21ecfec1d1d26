package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store"
)

// Store measures the mailboxes' store alone, in this process: publishers wait for each commit, and all stored notifications are
// acknowledged.
type Store struct {
	Common
	Publishers int
	Recipients int
	Size       int
	Warmup     time.Duration
	For        time.Duration
}

// Run measures.
func (s *Store) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("store", "store alone: publish and acknowledge, without connections", set("publishers", s.Publishers), set("recipients", s.Recipients),
		set("size", fmt.Sprintf("%d B", s.Size)), set("for", s.For))
	return r, s.runs(ctx, func(ctx context.Context, _ int) error { return s.one(ctx, r) })
}

func (s *Store) one(ctx context.Context, r *report.Result) (err error) {
	dir, err := os.MkdirTemp(s.Testbed.Server.Dir, "godwit-bench-store-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg := store.Config{Data: filepath.Join(dir, "data"), Node: "bench"}
	if err := os.Mkdir(cfg.Data, 0o700); err != nil {
		return err
	}
	pg := s.Testbed.Server.Postgres
	if pg != nil {
		db, err := pg.NewDatabase(ctx)
		if err != nil {
			return err
		}
		defer db.Drop()
		cfg.Postgres = db.URL
	}
	stores, err := store.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	acks := acknowledge(stores.Mailbox)
	defer acks.stop()
	if err := s.known(ctx, stores.Mailbox); err != nil {
		return err
	}
	s.Testbed.Say("warming up for %s", s.Warmup)
	if _, _, err := s.publish(ctx, stores.Mailbox, s.Warmup); err != nil {
		return err
	}
	return s.measured(ctx, r, stores.Mailbox, pg)
}

// known creates the recipients, as on a server that has run for a while.
func (s *Store) known(ctx context.Context, m mailbox.Store) error {
	for first := 0; first < s.Recipients; first += 1000 {
		a := fresh(16)
		for i := first; i < min(first+1000, s.Recipients); i++ {
			a.To = append(a.To, "r"+strconv.Itoa(i))
		}
		if err := m.Append(ctx, []*mailbox.Append{a}); err != nil {
			return err
		}
	}
	return settled(ctx, m)
}

func fresh(size int) *mailbox.Append {
	now := time.Now()
	return &mailbox.Append{Fresh: true, N: &notification.Notification{
		App: testbed.App, ID: ulid.Make().String(), CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		Content: notification.Content{Data: make([]byte, size), ContentType: "application/octet-stream"},
	}}
}

// settled waits until everything is acknowledged and the acknowledgements are on disk.
func settled(ctx context.Context, m mailbox.Store) error {
	for m.Stats().Pending > 0 {
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// publish runs all publishers for span. It returns the number of publishes and their durations.
func (s *Store) publish(ctx context.Context, m mailbox.Store, span time.Duration) (n int64, took *latency.Histogram, err error) {
	took = latency.New()
	var stored atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	until := time.Now().Add(span)
	for g := range s.Publishers {
		wg.Go(func() {
			for i := 0; ; i++ {
				a, begun := fresh(s.Size), time.Now()
				if begun.After(until) {
					return
				}
				a.To = []string{"r" + strconv.Itoa((g*7919+i*31)%s.Recipients)}
				failed := m.Append(ctx, []*mailbox.Append{a})
				if failed == nil {
					failed = a.Results[0].Err
				}
				if failed != nil {
					once.Do(func() { err = failed })
					return
				}
				took.Record(time.Since(begun))
				stored.Add(1)
			}
		})
	}
	wg.Wait()
	return stored.Load(), took, err
}

func (s *Store) measured(ctx context.Context, r *report.Result, m mailbox.Store, pg *testbed.Postgres) error {
	s.Testbed.Say("measuring for %s", s.For)
	var before, after testbed.Spent
	var err error
	if pg != nil {
		if before, err = pg.Spent(ctx); err != nil {
			return err
		}
	}
	own, err := meter.Read(os.Getpid())
	if err != nil {
		return err
	}
	commits, begun := m.Stats().Commits, time.Now()
	n, took, err := s.publish(ctx, m, s.For)
	if err == nil {
		err = settled(ctx, m)
	}
	seconds := time.Since(begun).Seconds()
	if err != nil {
		return err
	}
	if pg != nil {
		if after, err = pg.Spent(ctx); err != nil {
			return err
		}
	}
	now, err := meter.Read(os.Getpid())
	if err != nil {
		return err
	}
	pairs, lat := float64(n), took.Summary()
	r.Add("", "publishes and acks", "/s", pairs/seconds)
	r.Add("", "publish answered p50", "ms", lat.P50)
	r.Add("", "publish answered p99", "ms", lat.P99)
	r.Add("", "copies a commit", "", pairs/float64(m.Stats().Commits-commits))
	r.Add("", "CPU of this process a publish and ack", "µs", (now.CPU-own.CPU).Seconds()/pairs*1e6)
	if pg != nil {
		spent := after.Since(before)
		if spent.CPU > 0 {
			r.Add("", "PostgreSQL CPU a publish and ack", "µs", spent.CPU.Seconds()/pairs*1e6)
		}
		r.Add("", "write-ahead log a publish and ack", "B", float64(spent.WAL)/pairs)
	}
	return nil
}

// acker acknowledges everything that is stored, as sessions do.
type acker struct {
	c  chan []*mailbox.Settle
	wg sync.WaitGroup
}

// ackQueue is the number of commits that may wait for acknowledgement.
const ackQueue = 1024

func acknowledge(m mailbox.Store) *acker {
	a := &acker{c: make(chan []*mailbox.Settle, ackQueue)}
	m.Observe(a)
	a.wg.Go(func() {
		for batch := range a.c {
			m.SettleLater(batch)
		}
	})
	return a
}

// stop ends the acker. Call it after all publishes have ended.
func (a *acker) stop() {
	close(a.c)
	a.wg.Wait()
}

// Committed implements mailbox.Observer.
func (a *acker) Committed(b *mailbox.Batch) {
	if len(b.Stored) == 0 {
		return
	}
	batch := make([]*mailbox.Settle, len(b.Stored))
	for i := range b.Stored {
		it := &b.Stored[i]
		batch[i] = &mailbox.Settle{
			App: it.N.App, Recipient: it.Recipient, ID: it.N.ID, Pos: it.Pos, As: notification.Acked, At: it.N.CreatedAt,
			DeliveredAt: it.N.CreatedAt, Attempts: 1,
		}
	}
	a.c <- batch
}
