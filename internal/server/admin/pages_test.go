package admin

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/server/admin/words"
)

// names returns the names of all pages.
func names(t testing.TB) (names []string) {
	files, err := templates.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".html"); !slices.Contains([]string{"layout", "fields"}, name) {
			names = append(names, name)
		}
	}
	return names
}

func TestEachPageCanBeReadForEachRole(t *testing.T) {
	for _, name := range names(t) {
		for role := range signin.Admin + 1 {
			var p pages
			if _, err := p.get(words.English, role, name); err != nil {
				t.Errorf("role %d: %v", role, err)
			}
		}
	}
}

func TestAPageIsReadOnceWhileItIsUsedAndNotKeptForNobody(t *testing.T) {
	var p pages
	one, err := p.get(words.English, signin.Admin, "overview")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := p.get(words.English, signin.Admin, "overview"); again != one {
		t.Error("a page that is in use was read again")
	}
	if other, _ := p.get(words.English, signin.View, "overview"); other == one {
		t.Error("two roles see the same page")
	}
	runtime.KeepAlive(one)
	runtime.GC()
	for key, kept := range p.read {
		if kept.Value() != nil {
			t.Errorf("the page %s is kept although nobody uses it", key.name)
		}
	}
	if _, err := p.get(words.English, signin.Admin, "none"); err == nil || !strings.Contains(err.Error(), "page none") {
		t.Errorf("a page that is none: %v", err)
	}
}

// BenchmarkReadPage measures the time for which a page's first visitor waits before it can be rendered.
func BenchmarkReadPage(b *testing.B) {
	for b.Loop() {
		var p pages
		if _, err := p.get(words.English, signin.Admin, "overview"); err != nil {
			b.Fatal(err)
		}
	}
}
