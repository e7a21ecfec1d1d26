package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"

	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
	"godwit.dev/godwit/internal/store/sqlite/objectdb"
)

// files stores a server's state in SQLite. Every death is a power cut: unsynced data is lost.
type files struct {
	vfs   *faultvfs.VFS
	dir   string
	lives int
}

func (f *files) path() string { return filepath.Join(f.dir, fmt.Sprintf("life%d.db", f.lives)) }

func (f *files) open() (objectstore.Store, func(), error) {
	s, err := objectdb.Open(context.Background(), f.path(), objectdb.Config{VFS: f.vfs.Name(), MinFree: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	return s, func() {
		old := f.path()
		f.lives++
		if err := errors.Join(f.vfs.PowerCut(old, f.path()), s.Close()); err != nil {
			panic(err)
		}
	}, nil
}

func (f *files) wipe() { f.lives++ }

func TestTheRealStoreKeepsThePromise(t *testing.T) {
	for _, seed := range seeds(t, 4)[:1] {
		vfs, dir := faultvfs.New(t), t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			live(t, seed, 60, 600, &files{vfs: vfs, dir: dir}, &faults{rand: rand.New(rand.NewPCG(seed, 4))})
		})
	}
}
