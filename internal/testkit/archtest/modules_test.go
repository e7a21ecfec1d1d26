package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	required = regexp.MustCompile(`(?m)^\s*(?:require )?([a-z0-9.]+\.[a-z]+/\S+|\S+\.\S+/\S+) v\S+`)
	reason   = regexp.MustCompile("(?m)^\\| `([^`]+)`")
)

// TestEveryDependencyHasAReason compares what the code imports with docs/dependencies.md, in both directions.
func TestEveryDependencyHasAReason(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	deployed, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, m := range required.FindAllStringSubmatch(string(mod)+string(deployed), -1) {
		modules = append(modules, m[1])
	}
	used := map[string]string{}                                     // module → a file that imports it
	beside, err := parse(filepath.Join("..", "..", "..", "deploy")) // a module of its own
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range slices.Concat(tree(t), beside) {
		for _, imported := range f.imports() {
			if m := moduleOf(imported, modules); m != "" {
				used[m] = f.path
			}
		}
	}
	explained := map[string]bool{}
	for _, m := range reason.FindAllStringSubmatch(string(page), -1) {
		explained[m[1]] = true
		if used[m[1]] == "" {
			t.Errorf("docs/dependencies.md explains %s, which nothing imports", m[1])
		}
	}
	for m, file := range used {
		if !explained[m] && !strings.HasPrefix(m, "github.com/knadh/koanf/") {
			t.Errorf("%s imports %s, for which docs/dependencies.md has no reason", file, m)
		}
	}
}

// TestMethodsThatNobodyCallsAreLeftOut forbids code that calls methods by names known only at run time: it makes the linker keep every
// exported method of every type, which makes the program 4.2 MB larger.
func TestMethodsThatNobodyCallsAreLeftOut(t *testing.T) {
	for _, f := range tree(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		for _, imported := range f.imports() {
			if imported == "html/template" || imported == "text/template" {
				t.Errorf("%s imports %s: take github.com/DataDog/datadog-agent/pkg/template", f.path, imported)
			}
		}
	}
}

// moduleOf returns the module of an imported package: the longest module path that is a prefix of the package's path.
func moduleOf(imported string, modules []string) (module string) {
	for _, m := range modules {
		if (imported == m || strings.HasPrefix(imported, m+"/")) && len(m) > len(module) {
			module = m
		}
	}
	return module
}
