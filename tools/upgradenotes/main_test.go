package main

import (
	"os"
	"strings"
	"testing"
)

const changelog = `# Changelog

## [Unreleased]

### Know before you upgrade an earlier build

- Back up ([how](docs/guides/operations.md#backup)), see [settings](docs/reference/config.md).
- A second
  line.

### Added

- This is no advice.

## [1.1.0] - 2027-01-02

### Added

- Nothing to know.

## [1.0.0] - 2026-12-01

### Know before you upgrade

- The [plug-in](integrations/wordpress/README.md), and [a page](https://example.org/x).
`

func TestEachVersionsAdviceIsOnThePage(t *testing.T) {
	got, err := page(changelog)
	if err != nil {
		t.Fatal(err)
	}
	const want = `
## Unreleased

- Back up ([how](operations.md#backup)), see [settings](../reference/config.md).
- A second
  line.

## 1.0.0, 2026-12-01

- The [plug-in](../../integrations/wordpress/README.md), and [a page](https://example.org/x).
`
	if got != introduction+want {
		t.Errorf("it is\n%s", got)
	}
}

func TestAChangelogWithoutAdviceIsRefused(t *testing.T) {
	for want, text := range map[string]string{
		"no version has a section": "## [1.0.0] - 2026-12-01\n\n### Added\n\n- x\n",
		"before the first version": "### Know before you upgrade\n\n- x\n",
	} {
		if _, err := page(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestThePageIsThatOfTheChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := page(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../../docs/guides/upgrade-notes.md"); err != nil || string(got) != want {
		t.Errorf("docs/guides/upgrade-notes.md is not what CHANGELOG.md says (%v): go generate ./docs", err)
	}
}
