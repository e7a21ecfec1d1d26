package objectdb_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
	"godwit.dev/godwit/internal/store/sqlite/objectdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is the tests' configuration: it has no reserve, so that tests pass on a nearly full machine.
func config() objectdb.Config {
	return objectdb.Config{MinFree: 1, Log: slog.New(slog.DiscardHandler)}
}

func openAt(t *testing.T, path string, cfg objectdb.Config) *objectdb.Store {
	t.Helper()
	s, err := objectdb.Open(t.Context(), path, cfg)
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
	storetest.RunTwoObjects(t, storetest.Alone[objectstore.Store]("another process would not be told of changes, nor that there are registrations now"))
}

func TestConformance(t *testing.T) {
	storetest.RunObjects(t, func(t *testing.T) storetest.OpenedObjects {
		vfs := faultvfs.New(t)
		cfg := config()
		cfg.VFS = vfs.Name()
		dir := t.TempDir()
		path := filepath.Join(dir, "objects.db")
		s := openAt(t, path, cfg)
		crashes := 0
		return storetest.OpenedObjects{
			Store: s,
			Reopen: func() objectstore.Store {
				if err := s.Close(); err != nil {
					t.Fatalf("close: %v", err)
				}
				s = openAt(t, path, cfg)
				return s
			},
			Crash: func() objectstore.Store {
				crashes++
				copied := filepath.Join(dir, fmt.Sprint("crash", crashes))
				if err := vfs.PowerCut(path, copied); err != nil {
					t.Fatal(err)
				}
				return openAt(t, copied, config())
			},
		}
	})
}

func putOf(name string) []*objectstore.Put {
	return []*objectstore.Put{{App: "app", Key: object.Key{Group: "north", Object: name}, At: time.Now().Truncate(time.Millisecond)}}
}

// saved stores registrations and returns the result.
func saved(s objectstore.Store, keys ...object.Key) error {
	done := make(chan error, 1)
	id := objectstore.ClientID{App: "app", Recipient: "unit-1", Device: "main"}
	s.Save(&objectstore.Save{ID: id, Keys: keys, SeenAt: time.Now(), Done: func(err error) { done <- err }})
	return <-done
}

type counter struct{ n atomic.Int64 }

func (c *counter) Changed(batch []objectstore.Change) { c.n.Add(int64(len(batch))) }

func TestAFailedSyncEndsTheProgramAndAnnouncesNothing(t *testing.T) {
	vfs := faultvfs.New(t)
	cfg := config()
	cfg.VFS = vfs.Name()
	var fatal atomic.Int32
	cfg.Fatal = func(error) { fatal.Add(1) }
	var told counter
	s, err := objectdb.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Observe(&told)
	if err := s.Put(t.Context(), putOf("a")); err != nil {
		t.Fatal(err)
	}
	vfs.FailSyncs(true)
	var fe *sqlitedb.FatalError
	if err := s.Put(t.Context(), putOf("b")); !errors.As(err, &fe) {
		t.Errorf("put: %v, want a fatal error", err)
	}
	vfs.FailSyncs(false) // the next sync would succeed, but earlier writes may be lost all the same
	if err := saved(s, object.Key{Group: "north", Object: "a"}); !errors.As(err, &fe) {
		t.Errorf("save after the failure: %v, want the fatal error", err)
	}
	if fatal.Load() != 1 || told.n.Load() != 1 {
		t.Errorf("the program was told %d times and the observer of %d changes, want once and the first alone", fatal.Load(), told.n.Load())
	}
	_ = s.Close()
}

func TestFullDiskRefusesAndHeals(t *testing.T) {
	vfs := faultvfs.New(t)
	cfg := config()
	cfg.VFS = vfs.Name()
	var told counter
	s := openAt(t, filepath.Join(t.TempDir(), "o.db"), cfg)
	s.Observe(&told)
	k := object.Key{Group: "north", Object: "a"}
	if err := errors.Join(s.Put(t.Context(), putOf("a")), saved(s, k)); err != nil {
		t.Fatal(err)
	}
	vfs.Leave(0)
	if err := s.Put(t.Context(), putOf("b")); !errors.Is(err, mailbox.ErrNoSpace) {
		t.Errorf("put: %v, want ErrNoSpace", err)
	}
	if err := saved(s, k, object.Key{Group: "north", Object: "b"}); !errors.Is(err, mailbox.ErrNoSpace) {
		t.Errorf("save: %v, want ErrNoSpace", err)
	}
	if told.n.Load() != 1 {
		t.Errorf("%d changes were announced, want the first alone", told.n.Load())
	}
	vfs.Leave(-1)
	if err := errors.Join(s.Put(t.Context(), putOf("b")), saved(s, k)); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestBelowTheReserveNothingNewIsStored(t *testing.T) {
	cfg := config()
	path := filepath.Join(t.TempDir(), "o.db")
	s := openAt(t, path, cfg)
	k := object.Key{Group: "north", Object: "a"}
	if err := errors.Join(s.Put(t.Context(), putOf("a")), saved(s, k), s.Close()); err != nil {
		t.Fatal(err)
	}
	cfg.MinFree = 1 << 60
	s = openAt(t, path, cfg)
	if err := s.Put(t.Context(), putOf("b")); !errors.Is(err, mailbox.ErrNoSpace) {
		t.Errorf("put: %v, want ErrNoSpace", err)
	}
	if err := saved(s, k); !errors.Is(err, mailbox.ErrNoSpace) {
		t.Errorf("save: %v, want ErrNoSpace", err)
	}
	if err := saved(s); err != nil {
		t.Errorf("removing registrations, which makes room: %v", err)
	}
}

func TestPutsQueuedTogetherShareACommit(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "o.db"), config())
	before := s.Commits()
	batch := make([]*objectstore.Put, 0, 100)
	for i := range 100 {
		batch = append(batch, putOf(fmt.Sprint("o", i))...)
	}
	if err := s.Put(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if n := s.Commits() - before; n != 1 {
		t.Errorf("%d commits for one batch", n)
	}
}
