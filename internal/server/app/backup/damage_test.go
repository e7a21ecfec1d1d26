package backup_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/app/backup"
	"godwit.dev/godwit/internal/store"
)

// whole makes a data folder with every database, none of which is open.
func whole(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), store.Config{Data: dir, MinFree: 1, Ballast: 1})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestADamagedDatabaseIsNotBackedUp(t *testing.T) {
	for _, name := range store.Files() {
		for how, harm := range map[string]func(path string) error{
			"altered": func(path string) error {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				b[len(b)-1] ^= 4
				return os.WriteFile(path, b, 0o600)
			},
			"missing":           os.Remove,
			"without checksums": func(path string) error { return os.Remove(path + "-sums") },
		} {
			dir, file := whole(t), filepath.Join(t.TempDir(), "copy")
			if err := harm(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := backup.Write(t.Context(), dir, file, "test"); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s %s: backing up gives %v", name, how, err)
			}
			if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s %s: an archive was left: %v", name, how, err)
			}
		}
	}
}

func TestAnAlteredDatabaseIsNotRestored(t *testing.T) {
	dir, file := whole(t), filepath.Join(t.TempDir(), "copy")
	if _, err := backup.Write(t.Context(), dir, file, "test"); err != nil {
		t.Fatal(err)
	}
	for _, name := range store.Files() {
		other, target := filepath.Join(t.TempDir(), "other"), filepath.Join(t.TempDir(), "new")
		alter(t, file, other, name)
		_, err := backup.Restore(t.Context(), other, target)
		if err == nil || !strings.Contains(err.Error(), name+" is not what was backed up") {
			t.Errorf("%s: restoring gives %v", name, err)
		}
		if left, err := os.ReadDir(target); err == nil && len(left) > 1 { // the lock file may remain
			t.Errorf("%s: %v are left", name, left)
		}
	}
}

// alter copies an archive with one bit of one of its files changed.
func alter(t *testing.T, from, to, name string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zin, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	zout := gzip.NewWriter(out)
	r, w := tar.NewReader(zin), tar.NewWriter(zout)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == name {
			b[len(b)/2] ^= 1
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zout.Close()); err != nil {
		t.Fatal(err)
	}
}
