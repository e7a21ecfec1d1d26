package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestGlossaryNamesPackages checks that the packages named in docs/glossary.md exist.
func TestGlossaryNamesPackages(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(internal/[a-z0-9/]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) == 0 {
		t.Fatal("the glossary names no package")
	}
	for _, m := range named {
		if info, err := os.Stat(filepath.Join("..", "..", "..", filepath.FromSlash(m[1]))); err != nil || !info.IsDir() {
			t.Errorf("the glossary names %s, which is no package", m[1])
		}
	}
}
