package appdb_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *appdb.Store {
	t.Helper()
	s, err := appdb.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	storetest.RunApps(t, func(t *testing.T) (*appsql.Store, func() *appsql.Store) {
		path := filepath.Join(t.TempDir(), "apps.db")
		s := open(t, path)
		return s.Store, func() *appsql.Store {
			ok(t, s.Close())
			s = open(t, path)
			return s.Store
		}
	}, func(t *testing.T, _ func() time.Time) (a, b *appsql.Store) {
		path := filepath.Join(t.TempDir(), "apps.db")
		return open(t, path).Store, open(t, path).Store
	})
}

func TestADamagedHookIsNotWrittenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apps.db")
	s := open(t, path)
	ok(t, s.CreateApp(t.Context(), access.App{Name: "shop"}))
	ok(t, s.Hooks.Update(t.Context(), "shop", "h", func(h *hook.Hook, _ int) error { h.Secrets = []string{"kept"}; return nil }))
	ok(t, s.Close())
	c, err := sqlite.OpenConn(path)
	ok(t, err)
	ok(t, sqlitex.ExecuteTransient(c, `UPDATE hook SET settings = '{"secrets":["kept"]'`, nil))
	ok(t, c.Close())
	ok(t, os.Remove(path+checkvfs.Suffix)) // a manually changed database gets new checksums
	s = open(t, path)
	err = s.Hooks.Update(t.Context(), "shop", "h", func(*hook.Hook, int) error { t.Error("changed"); return nil })
	if err == nil || !strings.Contains(err.Error(), "hook h are damaged") {
		t.Errorf("got %v, want an error that names the hook", err)
	}
}

func TestSigningInWakesNobodyWhoWatches(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "apps.db"))
	version := func() (v int64) {
		t.Helper()
		ok(t, s.DB().Read(t.Context(), func(c *sqlite.Conn) error {
			return sqlitex.ExecuteTransient(c, "SELECT value FROM version", &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
				v = row.ColumnInt64(0)
				return nil
			}})
		}))
		return v
	}
	start := version()
	ok(t, s.CreateApp(t.Context(), access.App{Name: "shop"}))
	before := version()
	ok(t, s.AddLogin(t.Context(), signin.Hash{}, signin.Login{ID: "s", Person: signin.Person{App: "shop"}}, signin.Bounds{Most: 1}))
	ok(t, s.SeeLogin(t.Context(), signin.Hash{}, time.UnixMilli(1)))
	_, err := s.EndLogins(t.Context(), "shop", []string{"s"})
	ok(t, err)
	if after := version(); after != before || before == start {
		t.Errorf("the version went from %d over %d to %d", start, before, after)
	}
}

func TestFileAndLogFilesAreTheOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apps.db")
	s := open(t, path)
	ok(t, s.CreateApp(t.Context(), access.App{Name: "shop"}))
	files, err := filepath.Glob(path + "*")
	ok(t, err)
	if len(files) < 2 {
		t.Fatalf("only %q", files)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
}
