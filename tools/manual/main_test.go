package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	bench "godwit.dev/godwit/bench/cli"
	"godwit.dev/godwit/internal/server/cli"
)

// pages writes the manual and returns its files by their names.
func pages(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if _, err := write(dir, "1700000000"); err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err == nil && strings.HasSuffix(name, ".gz") {
			content = unpacked(t, content)
		}
		files[strings.TrimPrefix(name, dir+"/")] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func unpacked(t *testing.T, packed []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if !z.ModTime.IsZero() {
		t.Errorf("an archive has the time %s: it is not the same tomorrow", z.ModTime)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var word = regexp.MustCompile(`[A-Za-z0-9][\w.:/@-]*[A-Za-z0-9]`)

// shown is the text of a page without the marks of roff.
func shown(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, `.\"`) {
			continue
		}
		b.WriteString(line)
	}
	return strings.NewReplacer(`\fB`, "", `\fP`, "", `\fI`, "", `\fR`, "", `\-`, "-", `\&`, "", `\\`, `\`, `\e`, `\`, `\(aq`, "'").Replace(b.String())
}

// holds fails the test where words of a help are missing on its page.
func holds(t *testing.T, name, page string, texts ...string) {
	t.Helper()
	has := make(map[string]bool)
	for _, w := range word.FindAllString(shown(page), -1) {
		has[w] = true
	}
	for _, text := range texts {
		for _, w := range word.FindAllString(text, -1) {
			if !has[w] {
				t.Errorf("%s lacks %q", name, w)
			}
		}
	}
}

func TestEachCommandHasAPageWithAllOfItsHelp(t *testing.T) {
	files := pages(t)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.IsAdditionalHelpTopicCommand() {
			return
		}
		name := "man/man1/" + strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1.gz"
		page, ok := files[name]
		if !ok {
			t.Errorf("there is no %s", name)
			return
		}
		help := []string{cmd.Short, cmd.Long, cmd.Example}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Deprecated == "" {
				_, usage := pflag.UnquoteUsage(f)
				help = append(help, "--"+f.Name, usage)
			}
		})
		if cmd.Name() == "bench" && !cmd.HasSubCommands() {
			help = nil // the page is that of the other program
		}
		holds(t, name, page, help...)
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(cli.Manual())
	walk(bench.Manual().Commands()[0])
	for _, c := range cli.Manual().Commands() {
		if c.Name() == "settings" {
			holds(t, "godwit.toml", files["man/man5/godwit.toml.5.gz"], c.Long)
		}
	}
	if t.Failed() {
		t.Logf("there are %q", slices.Sorted(maps.Keys(files)))
	}
}

func TestPagesAreRoffWithoutFault(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	dir := t.TempDir()
	args := []string{"-Kutf8", "-ww", "-Wbreak", "-man", "-t", "-Tutf8", "-z"}
	for name, page := range pages(t) {
		if strings.HasPrefix(name, "man/") {
			file := filepath.Join(dir, filepath.Base(name))
			if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, file)
		}
	}
	if out, err := exec.CommandContext(t.Context(), groff, args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestIndentedLinesStayAsTheyAre(t *testing.T) {
	const text = "A page of a_b <c> `d`:\n\n  key    what *it* is\n  other  more\nand text\n- with a dash\n1. and a number"
	const want = "A page of a\\_b \\<c\\> \\`d\\`:\n\n\n      key    what *it* is\n      other  more\n\nand text\n\\- with a dash\n1\\. and a number\n"
	if got := blocks(text); got != want {
		t.Errorf("it is\n%q, want\n%q", got, want)
	}
}

func TestCompletionsAreForTheProgram(t *testing.T) {
	files := pages(t)
	for name, want := range map[string]string{
		"bash-completion/completions/godwit":    "complete -o default -F __start_godwit godwit",
		"zsh/site-functions/_godwit":            "#compdef godwit",
		"fish/vendor_completions.d/godwit.fish": "complete -c godwit",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %q", name, want)
		}
	}
}

func TestABadTimeIsRefused(t *testing.T) {
	if _, err := write(t.TempDir(), "yesterday"); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("%v", err)
	}
}
