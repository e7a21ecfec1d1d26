package reaper_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/reaper"
)

func TestReaperRemovesFolderWhenItsProcessEnds(t *testing.T) {
	beside := t.TempDir()
	dir := filepath.Join(beside, "server")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	kept, err := reaper.Keep(dir, `echo ended > "$1/../said"`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("while it is kept: %v", err)
	}
	if err := kept.Close(); err != nil { // has the same effect as the end of this process
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the folder stays")
		}
	}
	if said, err := os.ReadFile(filepath.Join(beside, "said")); string(said) != "ended\n" {
		t.Errorf("the script that ends the server said %q, %v", said, err)
	}
}
