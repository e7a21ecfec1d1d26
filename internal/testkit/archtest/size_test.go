package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Limits that keep a package or folder small enough to understand.
const (
	mostImports = 30 // imports of this project's packages by one package
	mostWired   = 45 // the same for packages whose task is to connect parts
	mostGroups  = 16 // folders under internal
	mostFields  = 20 // fields of a struct of settings or of a constructor's parts: more are hard to remember
)

// wires are the packages that connect parts.
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

// settings matches the names of structs that hold settings, or parts for a constructor.
var settings = regexp.MustCompile(`(Config|Options|Settings|Parts|Services)$`)

func TestStructsOfSettingsHaveFewFields(t *testing.T) {
	seen := 0
	for _, f := range tree(t) {
		if _, rung, ok := place(f.dir()); f.isTest() || f.generated || !ok || rung > program {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !settings.MatchString(spec.Name.Name) {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				seen++
				if n := fieldsOf(s); n > mostFields {
					t.Errorf("%s: %s has %d fields; at most %d: group by meaning what belongs together", f.path, spec.Name.Name, n, mostFields)
				}
			}
			return true
		})
	}
	if seen == 0 {
		t.Error("no struct of settings was found")
	}
}

// fieldsOf counts a struct's fields. An embedded struct counts as one.
func fieldsOf(s *ast.StructType) (n int) {
	for _, field := range s.Fields.List {
		n += max(len(field.Names), 1)
	}
	return n
}
