package main

import (
	"archive/zip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const plugin = "../../integrations/wordpress"

func TestTheArchiveHasWhatASiteNeeds(t *testing.T) {
	name, err := pack(plugin, t.TempDir(), "1700000000")
	if err != nil {
		t.Fatal(err)
	}
	r, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
		if f.Modified.Unix() != 1700000000 {
			t.Errorf("%s is of %s", f.Name, f.Modified)
		}
	}
	for _, want := range []string{"godwit/godwit.php", "godwit/uninstall.php", "godwit/includes/page.php", "godwit/readme.txt", "godwit/LICENSE"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in %v", want, names)
		}
	}
	again, err := pack(plugin, t.TempDir(), "1700000000")
	if err != nil {
		t.Fatal(err)
	}
	one, _ := os.ReadFile(name)
	if two, err := os.ReadFile(again); err != nil || string(one) != string(two) {
		t.Errorf("the same files made other bytes (%v)", err)
	}
}

func TestVersionsThatDifferAreRefused(t *testing.T) {
	source := t.TempDir()
	if err := os.CopyFS(source, os.DirFS(plugin)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(source, "readme.txt")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(text), "Stable tag: ", "Stable tag: 9", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pack(source, t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "Stable tag") {
		t.Errorf("packed, with %v", err)
	}
}

// TestReadmeHasWordPresssForm checks the rules of WordPress's directory of plug-ins.
func TestReadmeHasWordPresssForm(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(plugin, "readme.txt"))
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), "\n\n")
	if !strings.HasPrefix(head, "=== Godwit ===\n") {
		t.Errorf("it begins with %q", head)
	}
	for _, name := range []string{"Contributors", "Tags", "Requires at least", "Tested up to", "Requires PHP", "Stable tag", "License", "License URI"} {
		if header([]byte(head), name) == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if tags := strings.Split(header([]byte(head), "Tags"), ","); len(tags) > 5 {
		t.Errorf("%d tags; the directory takes 5", len(tags))
	}
	if short, _, _ := strings.Cut(rest, "\n"); len(short) > 150 || short == "" || strings.HasPrefix(short, "=") {
		t.Errorf("the short description has %d characters: %q", len(short), short)
	}
	for _, section := range []string{"Description", "Installation", "Frequently Asked Questions", "External services", "Changelog"} {
		if !strings.Contains(rest, "\n== "+section+" ==\n") {
			t.Errorf("section %s is missing", section)
		}
	}
}
