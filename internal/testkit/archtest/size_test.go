package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Bounds that keep a package or folder small enough to know.
const (
	mostImports = 30 // packages of this project that one imports
	mostWired   = 45 // that one imports whose task it is to put parts together
	mostGroups  = 16 // folders under internal
)

// wires are the packages that put parts together.
var wires = []string{"internal/server/app", "internal/server/cli", "internal/store"}

func TestPackagesImportFewOthers(t *testing.T) {
	imported := make(map[string]map[string]bool)
	for _, f := range tree(t) {
		if _, rung, ok := place(f.dir()); f.isTest() || !ok || rung >= program {
			continue
		}
		for _, p := range f.imports() {
			if local, ours := strings.CutPrefix(p, "./"); ours {
				if imported[f.dir()] == nil {
					imported[f.dir()] = make(map[string]bool)
				}
				imported[f.dir()][local] = true
			}
		}
	}
	for dir, others := range imported {
		most := mostImports
		for _, w := range wires {
			if dir == w {
				most = mostWired
			}
		}
		if len(others) > most {
			t.Errorf("%s imports %d packages; at most %d: split it by meaning", dir, len(others), most)
		}
	}
}

func TestGroupsAreFew(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("..", "..", "..", "internal"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > mostGroups {
		t.Errorf("internal has %d folders; at most %d: a new package belongs to a group", len(entries), mostGroups)
	}
}
