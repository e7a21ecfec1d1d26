// Package sqlitetest provides empty stores for tests. A test program creates each kind of store once and copies its files for every test
// that needs one: a copy costs a third of creating the tables.
package sqlitetest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/store/sqlite/eventdb"
	"godwit.dev/godwit/internal/store/sqlite/objectdb"
)

var (
	discard = slog.New(slog.DiscardHandler)

	apps = Template(func(dir string) error {
		return closed(appdb.Open(context.Background(), filepath.Join(dir, "apps.db"), discard))
	})
	campaigns = Template(func(dir string) error {
		return closed(campaigndb.Open(context.Background(), filepath.Join(dir, "campaign.db"), campaigndb.Config{}))
	})
	objects = Template(func(dir string) error {
		return closed(objectdb.Open(context.Background(), filepath.Join(dir, "objects.db"), objectdb.Config{MinFree: 1}))
	})
	events = Template(func(dir string) error {
		return closed(eventdb.Open(context.Background(), filepath.Join(dir, "events.db"), eventdb.Options{}))
	})
)

// Template returns a function that gives each test a copy of one folder. The first call lets fill create the folder's files.
func Template(fill func(dir string) error) func(t testing.TB) (dir string) {
	made := sync.OnceValues(func() (fs.FS, error) { return folder(fill) })
	return func(t testing.TB) string {
		t.Helper()
		files, err := made()
		dir := t.TempDir()
		if err == nil {
			err = os.CopyFS(dir, files)
		}
		must(t, err)
		return dir
	}
}

// folder returns, in memory, the files that fill writes into a folder.
func folder(fill func(dir string) error) (files fstest.MapFS, err error) {
	dir, err := os.MkdirTemp("", "godwit-empty-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := fill(dir); err != nil {
		return nil, err
	}
	list, err := os.ReadDir(dir)
	files = fstest.MapFS{}
	for _, e := range list {
		f := &fstest.MapFile{Mode: 0o600}
		f.Data, err = os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			break
		}
		files[e.Name()] = f
	}
	return files, err
}

func closed(store io.Closer, err error) error {
	if err != nil {
		return err
	}
	return store.Close()
}

// AppsFile returns the path of a store without apps.
func AppsFile(t testing.TB) string {
	t.Helper()
	return filepath.Join(apps(t), "apps.db")
}

// Apps opens a store without apps until the test ends.
func Apps(t testing.TB, log *slog.Logger) *appdb.Store {
	t.Helper()
	s, err := appdb.Open(t.Context(), AppsFile(t), log)
	return until(t, s, err)
}

// CampaignsFile returns the path of an empty store of endpoints and campaigns.
func CampaignsFile(t testing.TB) string {
	t.Helper()
	return filepath.Join(campaigns(t), "campaign.db")
}

// Campaigns opens an empty store of endpoints and campaigns until the test ends.
func Campaigns(t testing.TB) *campaigndb.Store {
	t.Helper()
	s, err := campaigndb.Open(t.Context(), CampaignsFile(t), campaigndb.Config{})
	return until(t, s, err)
}

// Objects opens an empty store of objects until the test ends. It works however little space the disk has.
func Objects(t testing.TB, log *slog.Logger) *objectdb.Store {
	t.Helper()
	s, err := objectdb.Open(t.Context(), filepath.Join(objects(t), "objects.db"), objectdb.Config{MinFree: 1, Log: log})
	return until(t, s, err)
}

// Events opens an empty log of events until the test ends.
func Events(t testing.TB) *eventdb.Log {
	t.Helper()
	l, err := eventdb.Open(t.Context(), filepath.Join(events(t), "events.db"), eventdb.Options{})
	return until(t, l, err)
}

func until[S io.Closer](t testing.TB, store S, err error) S {
	t.Helper()
	must(t, err)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
