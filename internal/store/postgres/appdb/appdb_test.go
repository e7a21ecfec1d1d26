package appdb_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/postgres/appdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(t *testing.T) appdb.Config {
	return appdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
}

func open(t *testing.T, cfg appdb.Config) *appdb.Store {
	t.Helper()
	s, err := appdb.Open(t.Context(), cfg)
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close()) })
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
		cfg := config(t)
		s := open(t, cfg)
		return s.Store, func() *appsql.Store {
			ok(t, s.Close())
			s = open(t, cfg)
			return s.Store
		}
	}, func(t *testing.T, now func() time.Time) (a, b *appsql.Store) {
		cfg := config(t)
		cfg.Now = now
		return open(t, cfg).Store, open(t, cfg).Store
	})
}

func TestADamagedHookIsNotWrittenOver(t *testing.T) {
	s := open(t, config(t))
	ok(t, s.CreateApp(t.Context(), access.App{Name: "shop"}))
	ok(t, s.Hooks.Update(t.Context(), "shop", "h", func(h *hook.Hook, _ int) error { h.Secrets = []string{"kept"}; return nil }))
	_, err := s.DB().Pool().Exec(t.Context(), `UPDATE hook SET settings = '{"secrets":["kept"]'`)
	ok(t, err)
	err = s.Hooks.Update(t.Context(), "shop", "h", func(*hook.Hook, int) error { t.Error("changed"); return nil })
	if err == nil || !strings.Contains(err.Error(), "hook h are damaged") || strings.Contains(err.Error(), "kept") {
		t.Errorf("got %v, want an error that names the hook", err)
	}
}

// version returns the version that watchers read.
func version(t *testing.T, s *appdb.Store) (v int64) {
	t.Helper()
	ok(t, s.DB().Pool().QueryRow(t.Context(), "SELECT value FROM version").Scan(&v))
	return v
}

func TestUnchangedSettingsWakeNoWatcher(t *testing.T) {
	s := open(t, config(t))
	ok(t, s.CreateApp(t.Context(), access.App{Name: "shop"}))
	ok(t, s.CreateKey(t.Context(), access.StoredKey{Key: access.Key{ID: "k", App: "shop"}, Hash: sha256.Sum256([]byte("k"))}))
	used := time.UnixMilli(1_700_000_000_000)
	ok(t, s.TouchKeys(t.Context(), map[string]time.Time{"k": used}))
	before := version(t, s)
	_, err := s.Hooks.Delete(t.Context(), "shop", "none", nil)
	ok(t, err)
	if err := s.UpdateApp(t.Context(), "shop", func(*access.App) error { return context.Canceled }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ok(t, s.TouchKeys(t.Context(), map[string]time.Time{"k": used.Add(time.Minute)}))
	ok(t, s.AddLogin(t.Context(), signin.Hash{}, signin.Login{ID: "s", Person: signin.Person{App: "shop"}}, signin.Bounds{Most: 1}))
	ok(t, s.SeeLogin(t.Context(), signin.Hash{}, used))
	_, err = s.EndLogins(t.Context(), "shop", []string{"s"})
	ok(t, err)
	if after := version(t, s); after != before {
		t.Errorf("the version went from %d to %d", before, after)
	}
	ok(t, s.TouchKeys(t.Context(), map[string]time.Time{"k": used.Add(2 * time.Hour)}))
	if after := version(t, s); after == before {
		t.Error("nobody is told that a key is in use again")
	}
	snap, err := s.Load(t.Context())
	if err != nil || !snap.Keys[0].LastUsed.Equal(used.Add(2*time.Hour)) {
		t.Errorf("%+v, %v", snap.Keys, err)
	}
}

func TestWatchingOutlivesTheDatabase(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	s := open(t, appdb.Config{URL: server.URL()})
	ctx, stop := context.WithCancel(t.Context())
	woken, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- s.Watch(ctx, func() {
			select {
			case woken <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	<-woken // at the start
	server.Restart(t)
	ok(t, s.CreateApp(t.Context(), access.App{Name: "shop"}))
	<-woken
	stop()
	ok(t, <-ended)
}
