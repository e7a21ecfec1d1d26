package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const home = "https://example.org/godwit"

func TestLinksLeadToTheProjectsPage(t *testing.T) {
	for from, want := range map[string]string{
		"[a](../../docs/guides/install.md#python)": "[a](https://example.org/godwit/docs/guides/install.html#python)",
		"[a](../../README.md)":                     "[a](https://example.org/godwit)",
		"[a](#listen) [b](https://example.com/x)":  "[a](#listen) [b](https://example.com/x)",
	} {
		if got, err := absolute(from, "clients/python", home); err != nil || got != want {
			t.Errorf("%s becomes %q (%v), want %q", from, got, err, want)
		}
	}
}

func TestALinkToNowhereIsRefused(t *testing.T) {
	if _, err := absolute("[a](../../docs/guides/install.md) [b](src/index.ts)", "clients/js", home); err == nil || !strings.Contains(err.Error(), "src/index.ts") {
		t.Errorf("%v", err)
	}
	if _, err := published("main.go", "example.org"); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("%v", err)
	}
}

func TestNoLinkOfTheClientsReadsRelative(t *testing.T) {
	t.Chdir("../..")
	for _, file := range []string{"clients/js/README.md", "clients/python/README.md"} {
		text, err := published(file, home)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if left := regexp.MustCompile(`\]\((\.|[a-z]+/)[^)]*`).FindAllString(text, -1); left != nil {
			t.Errorf("%s has %q", file, left)
		}
		if !strings.Contains(text, home+"/docs/") {
			t.Errorf("%s leads to no page of the documentation", file)
		}
		for _, page := range regexp.MustCompile(home+`/(docs/[^)#]*)\.html`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(page[1] + ".md"); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
