package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store"
)

// headsAtOnce is the number of mailboxes that a node compares in one query.
const headsAtOnce = 256

// planetStore is a database with many recipients and one settled notification for each.
type planetStore struct {
	*Planet
	r    *report.Result
	db   *testbed.Database
	cfg  store.Config
	open *store.Stores
	n    int // recipients
}

const inDatabase = "database"

// store fills a database and measures what nodes do with it.
func (s *Planet) store(ctx context.Context, r *report.Result) (err error) {
	dir, err := os.MkdirTemp(s.Testbed.Server.Dir, "godwit-bench-planet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	x := &planetStore{Planet: s, r: r, cfg: store.Config{Data: filepath.Join(dir, "data"), Node: "bench"}}
	if err := os.Mkdir(x.cfg.Data, 0o700); err != nil {
		return err
	}
	if x.db, err = s.Testbed.Server.Postgres.NewDatabase(ctx); err != nil {
		return err
	}
	defer x.db.Drop()
	x.cfg.Postgres = x.db.URL
	if x.open, err = store.Open(ctx, x.cfg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.open.Close()) }()
	for _, step := range []func(context.Context) error{x.fill, x.sizes, x.reopen, x.compare, x.publish} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fill publishes one notification to each recipient and acknowledges it, a thousand recipients at a time.
func (x *planetStore) fill(ctx context.Context) error {
	acks := acknowledge(x.open.Mailbox)
	defer acks.stop()
	begun := time.Now()
	var next, stored atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for g := range errs {
		wg.Go(func() {
			for ctx.Err() == nil && time.Since(begun) < x.FillFor {
				first := int(next.Add(1)-1) * 1000
				if first >= x.Stored {
					return
				}
				a := fresh(64)
				for i := first; i < min(first+1000, x.Stored); i++ {
					a.To = append(a.To, planetName(i))
				}
				if errs[g] = patiently(ctx, x.open.Mailbox, a); errs[g] != nil {
					return
				}
				n := stored.Add(int64(len(a.To)))
				x.Testbed.Say("%s of %s recipients in the database", report.Format(float64(n)), report.Format(float64(x.Stored)))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return err
	}
	if err := settled(ctx, x.open.Mailbox); err != nil {
		return err
	}
	x.n = int(stored.Load())
	took := time.Since(begun)
	if x.n < x.Stored {
		x.r.Note(fmt.Sprintf("the database has %s recipients instead of %s: more did not fit into %s",
			report.Format(float64(x.n)), report.Format(float64(x.Stored)), x.FillFor))
	}
	x.r.Add(inDatabase, "recipients, each with one settled notification", "", float64(x.n))
	x.r.Add(inDatabase, "recipients stored with a notification and its acknowledgement", "/s", float64(x.n)/took.Seconds())
	return nil
}

// patiently publishes, again while the database does not answer: a machine that does other work may keep it waiting for seconds.
func patiently(ctx context.Context, to mailbox.Store, a *mailbox.Append) error {
	for {
		err := to.Append(ctx, []*mailbox.Append{a})
		if err == nil || !errors.Is(err, mailbox.ErrAway) {
			return err
		}
		a.N.ID = ulid.Make().String() // the copies of before may be there
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// sizes tells the bytes of a recipient, and of its notification.
func (x *planetStore) sizes(ctx context.Context) error {
	var recipients, all int64
	err := x.db.Row(ctx, "SELECT pg_total_relation_size('godwit_mailbox.recipient'), pg_database_size(current_database())", &recipients, &all)
	x.r.Add(inDatabase, "bytes of a recipient", "B", float64(recipients)/float64(x.n))
	x.r.Add(inDatabase, "bytes of a recipient with one settled notification of this hour", "B", float64(all)/float64(x.n))
	return err
}

// reopen measures how long a node takes to open the stores.
func (x *planetStore) reopen(ctx context.Context) (err error) {
	if err := x.open.Close(); err != nil {
		return err
	}
	runtime.GC()
	begun, before := time.Now(), heap()
	if x.open, err = store.Open(ctx, x.cfg); err != nil {
		return err
	}
	x.r.Add(inDatabase, "time of a node to open it", "s", time.Since(begun).Seconds())
	x.r.Add(inDatabase, "memory of a node that has opened it", "MB", max(heap()-before, 0)/mb)
	return nil
}

// scattered returns a recipient of the database.
func (x *planetStore) scattered(i uint64) string {
	return planetName(int(i * 2_654_435_761 % uint64(x.n))) // positive
}

// compare measures what all nodes do after a cut: they look whether each connected recipient has something that it was not sent.
func (x *planetStore) compare(ctx context.Context) error {
	x.Testbed.Say("comparing mailboxes for %s", x.For)
	before, err := x.Testbed.Server.Postgres.Spent(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	var done atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, x.Readers)
	for g := range errs {
		wg.Go(func() {
			of := make([]mailbox.Address, headsAtOnce)
			for i := uint64(g) << 32; time.Since(begun) < x.For && errs[g] == nil; i++ { // small
				for k := range of {
					of[k] = mailbox.Address{App: testbed.App, Recipient: x.scattered(i*headsAtOnce + uint64(k))} // positive
				}
				_, errs[g] = x.open.Mailbox.Heads(ctx, of)
				done.Add(headsAtOnce)
			}
		})
	}
	wg.Wait()
	seconds := time.Since(begun).Seconds()
	after, err := x.Testbed.Server.Postgres.Spent(ctx)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	rate := float64(done.Load()) / seconds
	x.r.Add(inDatabase, "mailboxes compared", "/s", rate)
	cpu := after.Since(before).CPU.Seconds()
	if cpu > 0 {
		x.r.Add(inDatabase, "PostgreSQL CPU to compare a mailbox", "µs", cpu/float64(done.Load())*1e6)
		x.r.Add(inDatabase, "PostgreSQL's cores to compare all connected recipients within 30 s", "", cpu/float64(done.Load())*float64(x.Recipients)/30)
	}
	x.r.Add(inDatabase, "time to compare all connected recipients after a cut, at this rate", "s", float64(x.Recipients)/rate)
	return nil
}

// planetPublishers wait for their commits.
const planetPublishers = 64

// publish measures publishes to recipients all over the database.
func (x *planetStore) publish(ctx context.Context) error {
	acks := acknowledge(x.open.Mailbox)
	defer acks.stop()
	x.Testbed.Say("publishing for %s", x.For)
	before, err := x.Testbed.Server.Postgres.Spent(ctx)
	if err != nil {
		return err
	}
	begun, took := time.Now(), latency.New()
	var wg sync.WaitGroup
	var n atomic.Int64
	errs := make([]error, planetPublishers)
	for g := range errs {
		wg.Go(func() {
			for i := uint64(g) << 32; time.Since(begun) < x.For && errs[g] == nil; i++ { // small
				a, sent := fresh(200), time.Now()
				a.To = []string{x.scattered(i)}
				errs[g] = patiently(ctx, x.open.Mailbox, a)
				took.Record(time.Since(sent))
				n.Add(1)
			}
		})
	}
	wg.Wait()
	err = errors.Join(append(errs, settled(ctx, x.open.Mailbox))...)
	seconds := time.Since(begun).Seconds()
	after, spentErr := x.Testbed.Server.Postgres.Spent(ctx)
	if err := errors.Join(err, spentErr); err != nil {
		return err
	}
	x.r.Add(inDatabase, "publishes and acks, to any recipient", "/s", float64(n.Load())/seconds)
	x.r.Add(inDatabase, "publish answered p50", "ms", took.Summary().P50)
	x.r.Add(inDatabase, "publish answered p99", "ms", took.Summary().P99)
	if cpu := after.Since(before).CPU.Seconds(); cpu > 0 {
		x.r.Add(inDatabase, "PostgreSQL CPU a publish and ack", "µs", cpu/float64(n.Load())*1e6)
	}
	return nil
}
