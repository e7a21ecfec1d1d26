package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/store"
)

// made makes a folder with a store in it.
func made(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	open(t, dir)
	return dir
}

func open(t *testing.T, dir string) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Data: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAMissingFileIsNotMadeAnewInSilence(t *testing.T) {
	for _, name := range append(store.Files(), store.ManifestFile) {
		for _, sums := range []bool{false, true} {
			dir := made(t)
			if sums {
				if name == store.ManifestFile {
					continue
				}
				name += "-sums"
			}
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			s, err := store.Open(t.Context(), store.Config{Data: dir})
			if err == nil {
				s.Close()
			}
			if store.Damaged(err) != dir || !strings.Contains(err.Error(), name) {
				t.Errorf("without %s: %v", name, err)
			}
			found, verr := store.Verify(t.Context(), dir, 0, nil)
			if verr != nil || len(found) == 0 {
				t.Errorf("without %s, verifying finds %v, %v", name, found, verr)
			}
			r, err := store.Repair(t.Context(), dir)
			if lost := strings.HasSuffix(name, ".db"); err != nil || r.Lossless() == lost {
				t.Errorf("without %s, the repair does %+v, %v", name, r, err)
			}
			open(t, dir)
			if found, err := store.Verify(t.Context(), dir, 0, nil); err != nil || len(found) > 0 {
				t.Errorf("after the repair without %s: %v, %v", name, found, err)
			}
		}
	}
}

func TestAFileOfAnotherStoreIsNotTaken(t *testing.T) {
	dir, other := made(t), made(t)
	for _, suffix := range []string{"", "-sums"} {
		b, err := os.ReadFile(filepath.Join(other, store.MailboxFile+suffix))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, store.MailboxFile+suffix), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(t.Context(), store.Config{Data: dir})
	if err == nil {
		s.Close()
		t.Fatal("it is taken")
	}
	if store.Damaged(err) != dir || !strings.Contains(err.Error(), "another store") {
		t.Error(err)
	}
	found, err := store.Verify(t.Context(), dir, 0, nil)
	if err != nil || len(found) != 1 || found[0].File != store.MailboxFile || !strings.Contains(found[0].Damage, "another store") {
		t.Errorf("verification finds %v, %v", found, err)
	}
}

// The next start completes a start that was interrupted before all files existed.
func TestAHalfMadeStoreIsFinished(t *testing.T) {
	dir := t.TempDir()
	_, closing, err := store.OpenApps(t.Context(), store.Config{Data: dir}, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := closing(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	open(t, dir)
}

// Commands that set up apps open an existing store, and distinguish a folder without a store from one that has lost a
// file.
func TestAppsAreOpenedAloneOnlyWhereTheyAre(t *testing.T) {
	apps := func(dir string) error {
		_, closing, err := store.OpenApps(t.Context(), store.Config{Data: dir}, false)
		if err == nil {
			err = closing()
		}
		return err
	}
	dir := made(t)
	if err := apps(dir); err != nil {
		t.Errorf("where there is a store: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, store.AppsFile)); err != nil {
		t.Fatal(err)
	}
	if err := apps(dir); store.Damaged(err) != dir || !strings.Contains(err.Error(), store.AppsFile) {
		t.Errorf("where the file was lost: %v", err)
	}
	if err := apps(t.TempDir()); !errors.Is(err, os.ErrNotExist) || store.Damaged(err) != "" {
		t.Errorf("where there is none: %v", err)
	}
}

func TestAFolderOfAFormerVersionGetsChecksums(t *testing.T) {
	dir := made(t)
	for _, name := range store.Files() {
		if err := os.Remove(filepath.Join(dir, name+"-sums")); err != nil {
			t.Fatal(err)
		}
	}
	later, err := filepath.Glob(filepath.Join(dir, "module-*"))
	if err != nil || len(later) == 0 {
		t.Fatal("no files of later versions", err)
	}
	for _, name := range later {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, store.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if found, err := store.Verify(t.Context(), dir, 0, nil); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestDataFilesArePrivate(t *testing.T) {
	dir := made(t)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s, %v", e.Name(), info.Mode(), err)
		}
	}
}

func TestFilesTakenAwayAreNoticedAndNothingIsStoredAfterDamage(t *testing.T) {
	dir := t.TempDir()
	var told []error
	s, err := store.Open(t.Context(), store.Config{Data: dir, Damaged: func(err error) { told = append(told, err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // its files are gone
	if err := s.Gone(); err != nil {
		t.Errorf("before: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, store.EventsFile)); err != nil {
		t.Fatal(err)
	}
	err = s.Gone()
	if err == nil || !strings.Contains(err.Error(), store.EventsFile) {
		t.Errorf("after: %v", err)
	}
	s.Refuse(err)
	if err := s.Mailbox.Ready(t.Context()); err == nil || store.Damaged(err) == "" {
		t.Errorf("mailboxes still store: %v", err)
	}
	if len(told) > 0 || errors.Is(err, os.ErrNotExist) {
		t.Errorf("told of %v", told)
	}
}
