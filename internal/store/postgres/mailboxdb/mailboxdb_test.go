package mailboxdb_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opener opens stores for the conformance suite; change alters their configuration.
func opener(change func(*mailboxdb.Config)) storetest.OpenFunc {
	return func(t *testing.T, opts storetest.Options) storetest.Opened {
		cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), MaxPending: opts.MaxPending, Now: opts.Now}
		change(&cfg)
		s := open(t, cfg)
		return storetest.Opened{
			Store: s,
			Reopen: func() mailbox.Store {
				if err := s.Seal(context.Background()); err != nil && s.Ready(context.Background()) == nil { // as upkeep does every minute
					t.Errorf("seal: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Fatalf("close: %v", err)
				}
				s = open(t, cfg)
				return s
			},
		}
	}
}

func open(t testing.TB, cfg mailboxdb.Config) *mailboxdb.Store {
	t.Helper()
	s, err := mailboxdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestTwoStores(t *testing.T) {
	storetest.RunTwo(t, func(t *testing.T, now func() time.Time) (a, b mailbox.Store) {
		cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: now}
		return open(t, cfg), open(t, cfg)
	})
}

func TestConformance(t *testing.T) {
	storetest.Run(t, opener(func(*mailboxdb.Config) {}))
}

// sealing seals all past hours before each call to the store. It publishes new ids as if the server had made them.
type sealing struct {
	*mailboxdb.Store
	t   *testing.T
	ids *newIDs
}

// newIDs knows which ids were published before. Publishes of one id wait for each other, so that only the first one is fresh.
type newIDs struct {
	mu sync.Mutex
	by map[string]*publishedID
}

type publishedID struct {
	mu   sync.Mutex
	seen bool
}

func (ids *newIDs) of(a *mailbox.Append, to string) *publishedID {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	key := strings.Join([]string{a.N.App, to, a.N.ID}, "\n")
	if ids.by[key] == nil {
		ids.by[key] = &publishedID{}
	}
	return ids.by[key]
}

// hold locks the ids of a batch and marks the publishes whose ids are new, and there once, as fresh.
func (ids *newIDs) hold(batch []*mailbox.Append) (release func()) {
	var all []string
	locks, times := make(map[string]*publishedID), make(map[string]int)
	for _, a := range batch {
		for _, to := range a.To {
			key := to + "\n" + a.N.ID
			if times[key]++; times[key] == 1 {
				locks[key] = ids.of(a, to)
				all = append(all, key)
			}
		}
	}
	slices.Sort(all)
	for _, id := range all {
		locks[id].mu.Lock()
	}
	for _, a := range batch {
		a.Fresh = true
		for _, to := range a.To {
			key := to + "\n" + a.N.ID
			a.Fresh, locks[key].seen = a.Fresh && !locks[key].seen && times[key] == 1, true
		}
	}
	return func() {
		for _, id := range all {
			locks[id].mu.Unlock()
		}
	}
}

func (s sealing) seal() {
	if err := s.Store.Seal(context.Background()); err != nil && s.Store.Ready(context.Background()) == nil {
		s.t.Errorf("seal: %v", err)
	}
}

func (s sealing) Append(ctx context.Context, batch []*mailbox.Append) error {
	s.seal()
	defer s.ids.hold(batch)()
	return s.Store.Append(ctx, batch)
}

func (s sealing) Settle(ctx context.Context, batch []*mailbox.Settle) error {
	s.seal()
	return s.Store.Settle(ctx, batch)
}

func (s sealing) Pending(ctx context.Context, qs []mailbox.PendingQuery) ([]mailbox.PendingResult, error) {
	s.seal()
	return s.Store.Pending(ctx, qs)
}

func (s sealing) Lookup(ctx context.Context, app, id, to string) ([]mailbox.Record, error) {
	s.seal()
	return s.Store.Lookup(ctx, app, id, to)
}

// This runs the suite on a store that seals past hours before each call and checks no new ids, and on the database that remains when
// PostgreSQL is killed.
func TestConformanceWhileHoursAreSealedAndAfterKills(t *testing.T) {
	// A small log, since each crash copies it.
	little := pgtest.Options{Fsync: true, Settings: map[string]string{"max_wal_size": "48MB", "min_wal_size": "32MB"}}
	storetest.RunAgain(t, "TestConformance", func(t *testing.T, opts storetest.Options) storetest.Opened {
		cfg := mailboxdb.Config{MaxPending: opts.MaxPending, Now: opts.Now}
		cfg.ShortHours(time.Minute)
		var server *pgtest.Server
		if opts.Crashes { // the server is paused while its files are copied, for how long depends on the machine
			server = pgtest.Start(t, little)
			cfg.URL, cfg.Schema = server.URL(), server.Schema(t)
		} else {
			cfg.URL, cfg.Schema = pgtest.URL(t), pgtest.Schema(t)
		}
		s, ids := open(t, cfg), &newIDs{by: make(map[string]*publishedID)}
		o := storetest.Opened{
			Store: sealing{s, t, ids},
			Reopen: func() mailbox.Store {
				if err := s.Close(); err != nil {
					t.Fatalf("close: %v", err)
				}
				s = open(t, cfg)
				return sealing{s, t, ids}
			},
		}
		if opts.Crashes {
			o.Crash = func() mailbox.Store {
				crashed := cfg
				crashed.URL = server.Crash(t).URL()
				return open(t, crashed)
			}
		}
		return o
	})
}

var _ mailbox.Escalator = sealing{}

func (s sealing) StepsDue(ctx context.Context, apps []string, now time.Time, limit int) ([]mailbox.StepDue, time.Time, error) {
	s.seal()
	return s.Store.StepsDue(ctx, apps, now, limit)
}
