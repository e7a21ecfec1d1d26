package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenMakesEveryFileAndOpensItAgain(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		s, err := store.Open(t.Context(), store.Config{Data: dir})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range store.Files() {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
		s.Trim()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that cannot open one of its stores closes the others: the leak check finds goroutines of open ones.
func TestOpenLeavesNothingOpenWhenOneCannotBe(t *testing.T) {
	for _, name := range store.Files() {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if s, err := store.Open(t.Context(), store.Config{Data: dir}); err == nil {
			t.Errorf("opened although %s is a folder", name)
			_ = s.Close()
		}
	}
}
