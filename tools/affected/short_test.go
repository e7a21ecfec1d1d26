package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPackagesThatShortSkipsWholeAreKnown(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"long":       {"func TestA(t *testing.T) { blackbox.Long(t); a() }", true},
		"skips":      {"func TestA(t *testing.T) { if testing.Short() { t.Skip(\"long\") }; a() }", true},
		"parallel":   {"func TestA(t *testing.T) { t.Parallel(); blackbox.Long(t); a() }", true},
		"less":       {"func TestA(t *testing.T) { if testing.Short() { n = 2 }; a() }", false},
		"runs":       {"func TestA(t *testing.T) { blackbox.Long(t) }\nfunc TestB(t *testing.T) { b() }", false},
		"later":      {"func TestA(t *testing.T) { a(); blackbox.Long(t) }", false},
		"example":    {"func TestA(t *testing.T) { blackbox.Long(t) }\nfunc ExampleA() {}", false},
		"fuzz":       {"func FuzzA(f *testing.F) { a() }", false},
		"benchmarks": {"func BenchmarkA(b *testing.B) {}", true},
		"main":       {"func TestMain(m *testing.M) { m.Run() }\nfunc TestA(t *testing.T) { blackbox.Long(t) }", true},
		"method":     {"func (x world) TestA() { a() }", true},
		"empty":      {"func TestA(t *testing.T) {}", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "x_test.go"), []byte("package x\n"+c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := skipsAll(dir); got != c.want || err != nil {
				t.Errorf("%t, %v", got, err)
			}
		})
	}
	if got, err := skipsAll(t.TempDir()); got || err != nil {
		t.Errorf("a package without tests: %t, %v", got, err) // it costs nothing, and is compiled
	}
	for dir, want := range map[string]bool{"test/webpage": true, "test/foreign": false, "bench/path": true, "internal/notify/session": false, "test/api": false} {
		if got, err := skipsAll(filepath.Join("..", "..", dir)); got != want || err != nil {
			t.Errorf("%s: %t, %v", dir, got, err)
		}
	}
}
