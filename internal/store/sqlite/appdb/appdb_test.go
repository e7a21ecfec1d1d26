package appdb_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
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

func fullApp(t *testing.T, name string) access.App {
	keys, err := access.ParseJWTKeys([]byte("a secret of at least thirty-two bytes"))
	ok(t, err)
	keys[0].Mints = true
	return access.App{
		Name: name, Origins: []string{"https://a.example", "https://b.example"}, JWTKeys: keys, JWKSURL: "https://j.example",
		IntrospectURL: "https://i.example", IntrospectID: "me", IntrospectSecret: "sekret", Issuer: "iss", Audience: "aud",
		CreatedAt: time.UnixMilli(1_700_000_000_123).UTC(),
	}
}

func key(app, id string) access.StoredKey {
	return access.StoredKey{
		Key:  access.Key{ID: id, App: app, Name: "ci", Roles: access.Publish | access.Worker, CreatedAt: time.UnixMilli(1_700_000_000_456).UTC(), Prefix: "gw_" + id},
		Hash: sha256.Sum256([]byte(id)),
	}
}

func TestEverythingSurvivesReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apps.db")
	s := open(t, path)
	app, k := fullApp(t, "shop"), key("shop", "k1")
	ok(t, s.CreateApp(t.Context(), app))
	ok(t, s.CreateKey(t.Context(), k))
	used := time.UnixMilli(1_700_000_001_000).UTC()
	ok(t, s.TouchKeys(t.Context(), map[string]time.Time{"k1": used, "gone": used}))
	ok(t, s.TouchKeys(t.Context(), map[string]time.Time{"k1": used.Add(-time.Hour)}))
	ok(t, s.Close())
	got, err := open(t, path).Load(t.Context())
	k.LastUsed = used
	want := access.Snapshot{Apps: []access.App{app}, Keys: []access.StoredKey{k}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, f := range []string{path} {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
}

func TestLogFilesAreAsPrivateAsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apps.db")
	s := open(t, path)
	ok(t, s.CreateApp(t.Context(), fullApp(t, "shop")))
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

func TestEveryQueryHeedsTheApp(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "apps.db"))
	for _, app := range []string{"a", "b"} {
		ok(t, s.CreateApp(t.Context(), fullApp(t, app)))
		ok(t, s.CreateKey(t.Context(), key(app, "of-"+app)))
	}
	for what, c := range map[string]struct{ err, want error }{
		"another app's key deleted":    {s.DeleteKey(t.Context(), "a", "of-b"), access.ErrUnknownKey},
		"id taken by another app":      {s.CreateKey(t.Context(), key("a", "of-b")), access.ErrExists},
		"key of no app":                {s.CreateKey(t.Context(), key("c", "k")), access.ErrUnknownApp},
		"app twice":                    {s.CreateApp(t.Context(), fullApp(t, "a")), access.ErrExists},
		"missing app changed":          {s.UpdateApp(t.Context(), "c", func(*access.App) error { return nil }), access.ErrUnknownApp},
		"missing app deleted":          {s.DeleteApp(t.Context(), "c"), access.ErrUnknownApp},
		"change that fails is undone":  {s.UpdateApp(t.Context(), "a", func(a *access.App) error { a.Issuer = "x"; return context.Canceled }), context.Canceled},
		"deleting takes own keys only": {s.DeleteApp(t.Context(), "a"), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
	got, err := s.Load(t.Context())
	if err != nil || len(got.Apps) != 1 || len(got.Keys) != 1 || got.Keys[0].ID != "of-b" {
		t.Errorf("left: %+v, %v", got, err)
	}
}

func TestTwoProcessesLoseNoUpdateAndTellEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apps.db")
	server, cli := open(t, path), open(t, path)
	ok(t, server.CreateApp(t.Context(), access.App{Name: "a"}))
	ctx, stop := context.WithCancel(t.Context())
	seen := make(chan struct{}, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Watch(ctx, func() { seen <- struct{}{} }); err != nil {
			t.Error(err)
		}
	})
	<-seen // once at the start
	for _, s := range []*appdb.Store{server, cli} {
		wg.Go(func() {
			for i := range 20 {
				err := s.UpdateApp(t.Context(), "a", func(a *access.App) error {
					a.Origins = append(a.Origins, fmt.Sprint(i))
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	<-seen
	origins := 0
	for origins < 40 {
		got, err := cli.Load(t.Context())
		ok(t, err)
		origins = len(got.Apps[0].Origins)
	}
	stop()
	wg.Wait()
}
