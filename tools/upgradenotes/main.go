// Command upgradenotes writes the page about upgrades from the changelog: of each version what an operator has to know or do before it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	out := flag.String("o", "", "file to write; standard output if empty")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: upgradenotes [-o FILE] CHANGELOG")
		os.Exit(2)
	}
	if err := run(*out, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "upgradenotes:", err)
		os.Exit(1)
	}
}

func run(out, changelog string) error {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return err
	}
	written, err := page(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", changelog, err)
	}
	if out == "" {
		_, err = fmt.Print(written)
		return err
	}
	return os.WriteFile(out, []byte(written), 0o644) // for everybody to read
}

const introduction = `# Upgrade notes

Of each version, newest first, what to know or do before you upgrade to it. Read all of those between your version and the new one. Versions that are not listed need nothing.
[Operations](operations.md#stop-and-upgrade) says how an upgrade goes. This page is generated from the [changelog](../../CHANGELOG.md).
`

var (
	version = regexp.MustCompile(`^## \[(.+?)\](?: - (\S+))?\s*$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// section is the heading, in a version of the changelog, of what the page is made of.
const section = "### Know before you upgrade"

// page returns the page of a changelog.
func page(changelog string) (string, error) {
	var advice []string // of each version
	heading, inside := "", false
	for line := range strings.Lines(changelog) {
		switch m := version.FindStringSubmatch(strings.TrimSuffix(line, "\n")); {
		case m != nil:
			heading, inside = m[1], false
			if m[2] != "" {
				heading += ", " + m[2]
			}
		case strings.HasPrefix(line, section):
			if heading == "" {
				return "", errors.New("there is advice before the first version")
			}
			advice = append(advice, "## "+heading+"\n")
			inside = true
		case strings.HasPrefix(line, "#"):
			inside = false
		case inside:
			advice[len(advice)-1] += relinked(line)
		}
	}
	if len(advice) == 0 {
		return "", fmt.Errorf("no version has a section %q", section)
	}
	for i, a := range advice {
		advice[i] = "\n" + strings.TrimRight(a, "\n") + "\n"
	}
	return introduction + strings.Join(advice, ""), nil
}

// relinked makes a line's links, which lead from the root of the repository, lead from the page's folder.
func relinked(line string) string {
	return link.ReplaceAllStringFunc(line, func(found string) string {
		dest := link.FindStringSubmatch(found)[1]
		if strings.Contains(dest, "://") || strings.HasPrefix(dest, "#") {
			return found
		}
		file, anchor, anchored := strings.Cut(dest, "#")
		to, err := filepath.Rel(filepath.Join("docs", "guides"), file)
		if err != nil {
			return found
		}
		if to = filepath.ToSlash(to); anchored {
			to += "#" + anchor
		}
		return "](" + to + ")"
	})
}
