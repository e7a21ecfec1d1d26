package mailboxdb_test

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is the tests' configuration: it has no reserve, so that tests pass on a nearly full machine.
func config() mailboxdb.Config {
	return mailboxdb.Config{MinFree: 1, Ballast: 1, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// opener opens stores for the conformance suite; change alters their configuration.
func opener(change func(*mailboxdb.Config)) storetest.OpenFunc {
	return func(t *testing.T, opts storetest.Options) storetest.Opened {
		cfg := config()
		cfg.MaxPending, cfg.Now = opts.MaxPending, opts.Now
		change(&cfg)
		vfs := faultvfs.New(t)
		cfg.VFS = vfs.Name()
		dir := t.TempDir()
		path := filepath.Join(dir, "mailbox.db")
		s := openAt(t, path, cfg)
		crashes := 0
		return storetest.Opened{
			Store: s,
			Reopen: func() mailbox.Store {
				if err := s.Close(); err != nil {
					t.Fatalf("close: %v", err)
				}
				s = openAt(t, path, cfg)
				return s
			},
			Crash: func() mailbox.Store {
				crashes++
				copied := filepath.Join(dir, fmt.Sprint("crash", crashes))
				if err := vfs.PowerCut(path, copied); err != nil {
					t.Fatal(err)
				}
				return openAt(t, copied, cfg)
			},
		}
	}
}

func openAt(t testing.TB, path string, cfg mailboxdb.Config) *mailboxdb.Store {
	t.Helper()
	s, err := mailboxdb.Open(t.Context(), path, cfg)
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
	storetest.RunTwo(t, storetest.Alone[mailbox.Store]("its index and counters are in the memory of its process"))
}

func TestConformance(t *testing.T) { storetest.Run(t, opener(func(*mailboxdb.Config) {})) }

func TestConformanceWithEightTellers(t *testing.T) {
	storetest.RunAgain(t, "TestConformance", opener(func(c *mailboxdb.Config) { c.Tellers = 8 }))
}

// TestConformanceWithAllPacked packs even publishes to a single recipient.
func TestConformanceWithAllPacked(t *testing.T) {
	storetest.RunAgain(t, "TestConformance", opener(func(c *mailboxdb.Config) { c.PackFrom(1) }))
}

func TestConformanceWithAllPackedAndSealed(t *testing.T) {
	storetest.RunAgain(t, "TestConformance", opener(func(c *mailboxdb.Config) {
		c.PackFrom(1)
		c.SmallSlices(3)
		c.MaxIdle = 2
	}))
}

func TestConformanceWithSealedIndexAndFewRecipientsInMemory(t *testing.T) {
	storetest.RunAgain(t, "TestConformance", opener(func(c *mailboxdb.Config) {
		c.SmallSlices(5)
		c.MaxIdle = 2
	}))
}
