package objectdb_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/signal"
	"godwit.dev/godwit/internal/store/postgres/objectdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openAt(t *testing.T, cfg objectdb.Config) *objectdb.Store {
	t.Helper()
	s, err := objectdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func config(t *testing.T) objectdb.Config {
	return objectdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
}

func TestTwoStores(t *testing.T) {
	storetest.RunTwoObjects(t, func(t *testing.T, now func() time.Time) (a, b signal.Store) {
		cfg := config(t)
		cfg.Now = now
		return openAt(t, cfg), openAt(t, cfg)
	})
}

func TestConformance(t *testing.T) {
	storetest.RunObjects(t, func(t *testing.T) storetest.OpenedObjects {
		cfg := config(t)
		s := openAt(t, cfg)
		return storetest.OpenedObjects{
			Store: s,
			Reopen: func() signal.Store {
				if err := s.Close(); err != nil {
					t.Fatalf("close: %v", err)
				}
				s = openAt(t, cfg)
				return s
			},
		}
	})
}

// TestConformanceAfterAKill has a server of its own, of which nothing is left but what it had written to disk.
func TestConformanceAfterAKill(t *testing.T) {
	storetest.RunObjectsCrash(t, func(t *testing.T) storetest.OpenedObjects {
		server := pgtest.Start(t, pgtest.Options{Fsync: true})
		cfg := objectdb.Config{URL: server.URL(), Schema: "objects"}
		s := openAt(t, cfg)
		return storetest.OpenedObjects{
			Store:  s,
			Reopen: func() signal.Store { return openAt(t, cfg) },
			Crash: func() signal.Store {
				server.Kill()
				server.Restart(t)
				s.DB().Pool().Reset() // else the first to use each connection would be told that it broke
				return openAt(t, cfg)
			},
		}
	})
}
