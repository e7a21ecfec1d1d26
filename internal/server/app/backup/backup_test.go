package backup_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/app/backup"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
)

// folder makes a data folder with one app and returns it while its store is open, as beside a running server.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	apps, err := appdb.Open(t.Context(), filepath.Join(dir, store.AppsFile), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := apps.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := apps.CreateApp(t.Context(), access.App{Name: "rides"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBackupBesideAnOpenStoreRestoresWhatWasCommitted(t *testing.T) {
	dir, file := folder(t), filepath.Join(t.TempDir(), "copy")
	m, err := backup.Write(t.Context(), dir, file, "test")
	if err != nil || len(m.Databases) != 1 || m.Databases[0] != store.AppsFile || m.Bytes == 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("archive has mode %v, %v; it holds secrets", info.Mode(), err)
	}
	target := filepath.Join(t.TempDir(), "new")
	if got, err := backup.Restore(t.Context(), file, target); err != nil || got.Server != "test" || !got.CreatedAt.Equal(m.CreatedAt) {
		t.Fatalf("%+v, %v", got, err)
	}
	apps, err := appdb.Open(t.Context(), filepath.Join(target, store.AppsFile), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer apps.Close()
	snap, err := apps.Load(t.Context())
	if err != nil || len(snap.Apps) != 1 || snap.Apps[0].Name != "rides" {
		t.Errorf("restored %+v, %v", snap, err)
	}
}

func TestBackupLeavesNothingBehindWhenItFails(t *testing.T) {
	out := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, try := range map[string]func() error{
		"canceled": func() error { _, err := backup.Write(ctx, folder(t), filepath.Join(out, "a"), "test"); return err },
		"empty folder": func() error {
			_, err := backup.Write(t.Context(), t.TempDir(), filepath.Join(out, "b"), "test")
			return err
		},
	} {
		if try() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// archive writes a tar.gz of these names and texts.
func archive(t *testing.T, files ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "archive")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return name
}

const manifest = `{"format":1,"created_at":"2026-01-02T03:04:05Z","server":"x","databases":["apps.db","../../evil"]}`

func TestArchiveThatIsNotOursIsRefusedAndLeavesTheFolderEmpty(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"no manifest":    {archive(t, "apps.db", "x"), "not a backup"},
		"manifest junk":  {archive(t, "godwit-backup.json", "{"), "not a backup"},
		"later format":   {archive(t, "godwit-backup.json", `{"format":2}`), "format 2"},
		"path outside":   {archive(t, "godwit-backup.json", manifest, "apps.db", "x", "../../evil", "x"), "no database of ours"},
		"not listed":     {archive(t, "godwit-backup.json", manifest, "mailbox.db", "x"), "no database of ours"},
		"database twice": {archive(t, "godwit-backup.json", manifest, "apps.db", "x", "apps.db", "y"), "exists"},
		"cut short":      {archive(t, "godwit-backup.json", manifest, "apps.db", "x"), "cut short"},
		"not there":      {filepath.Join(t.TempDir(), "none"), "no such file"},
	} {
		for _, at := range []string{"", "new", "new/newer"} {
			dir := t.TempDir()
			if _, err := backup.Restore(t.Context(), tt.file, filepath.Join(dir, at)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want mention of %q", name, err, tt.want)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != 0 {
				t.Errorf("%s: left %v, %v", name, left, err)
			}
		}
	}
}

func TestTruncatedArchiveIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "copy")
	if _, err := backup.Write(t.Context(), folder(t), file, "test"); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []int{0, 5, len(whole) / 2, len(whole) - 3} {
		if err := os.WriteFile(file, whole[:part], 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := backup.Restore(t.Context(), file, t.TempDir()); err == nil {
			t.Errorf("%d of %d bytes restored as %+v", part, len(whole), m)
		}
	}
}
