package repair_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/store/sqlite/repair"
)

func TestNothingIsTouchedThatCannotBeCopiedFirst(t *testing.T) {
	dir := t.TempDir()
	path, taken := filepath.Join(dir, "x.db"), filepath.Join(dir, "taken")
	damaged := bytes.Repeat([]byte("no database "), 1000)
	for _, f := range []string{path, taken} {
		if err := os.WriteFile(f, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j := repair.Job{Path: path, Copy: filepath.Join(taken, "copies"), Blank: taken}
	if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "keep copies") {
		t.Errorf("got %v, want an error that says that copies cannot be kept", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, damaged) {
		t.Errorf("the file was touched: %d bytes, %v", len(now), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("there are %v, %v", files, err)
	}
}
