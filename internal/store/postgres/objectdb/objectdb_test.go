package objectdb_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
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
	storetest.RunTwoObjects(t, func(t *testing.T, now func() time.Time) (a, b objectstore.Store) {
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
			Reopen: func() objectstore.Store {
				if err := s.Close(); err != nil {
					t.Fatalf("close: %v", err)
				}
				s = openAt(t, cfg)
				return s
			},
		}
	})
}

// TestConformanceAfterAKill uses a server of its own; only the data on disk survives the kill.
func TestConformanceAfterAKill(t *testing.T) {
	storetest.RunObjectsCrash(t, func(t *testing.T) storetest.OpenedObjects {
		server := pgtest.Start(t, pgtest.Options{Fsync: true})
		cfg := objectdb.Config{URL: server.URL(), Schema: "objects"}
		s := openAt(t, cfg)
		return storetest.OpenedObjects{
			Store:  s,
			Reopen: func() objectstore.Store { return openAt(t, cfg) },
			Crash: func() objectstore.Store {
				server.Kill()
				server.Restart(t)
				s.DB().Pool().Reset() // otherwise the first use of each connection would fail
				return openAt(t, cfg)
			},
		}
	})
}

func TestADatabaseThatIsAwayIsCalledSo(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	s := openAt(t, objectdb.Config{URL: server.URL()})
	k := object.Key{Group: "north", Object: "a"}
	put := func() error {
		return s.Put(t.Context(), []*objectstore.Put{{App: "app", Key: k, At: time.Now()}})
	}
	server.Kill()
	done := make(chan error, 1)
	s.Save(&objectstore.Save{ID: objectstore.ClientID{App: "app", Recipient: "r", Device: "d"}, Keys: []object.Key{k}, SeenAt: time.Now(), Done: func(err error) { done <- err }})
	_, err := s.Get(t.Context(), "app", []object.Key{k})
	for name, err := range map[string]error{"put": put(), "save": <-done, "get": err} {
		if !errors.Is(err, mailbox.ErrAway) {
			t.Errorf("%s: %v", name, err)
		}
	}
	server.Restart(t)
	if err := put(); err != nil {
		t.Errorf("when it is back: %v", err)
	}
}
