// Command manual writes the manual pages of all commands and settings, and the completions for shells, into a folder that is laid out like
// /usr/share. The same commands make the same bytes, with SOURCE_DATE_EPOCH as their time.
//
//	manual dist/share
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	bench "godwit.dev/godwit/bench/cli"
	"godwit.dev/godwit/internal/server/cli"
	"godwit.dev/godwit/internal/server/cli/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual FOLDER")
		os.Exit(2)
	}
	pages, err := write(os.Args[1], os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
	fmt.Printf("%d manual pages in %s\n", pages, os.Args[1])
}

// write makes the files below a folder and returns how many of them are manual pages.
func write(dir, epoch string) (pages int, err error) {
	seconds, err := strconv.ParseInt(cmp.Or(epoch, "0"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read SOURCE_DATE_EPOCH: %w", err)
	}
	files := make(map[string][]byte)
	root := cli.Manual()
	if err := completions(files, root); err != nil {
		return 0, err
	}
	m := manual{date: time.Unix(seconds, 0).UTC(), files: files, turned: make(map[*pflag.Flag]bool)}
	for _, tree := range []*cobra.Command{root, bench.Manual()} { // the latter's first page takes the place of the former's
		if err := m.add(tree); err != nil {
			return 0, err
		}
	}
	for name, content := range files {
		if err := store(filepath.Join(dir, name), content); err != nil {
			return 0, err
		}
	}
	return len(files) - len(shells), nil
}

func store(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o644) // for everybody to read
}

// shells are the completions' places and makers.
var shells = []struct {
	file string
	make func(root *cobra.Command, b *bytes.Buffer) error
}{
	{"bash-completion/completions/godwit", func(root *cobra.Command, b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) }},
	{"zsh/site-functions/_godwit", func(root *cobra.Command, b *bytes.Buffer) error { return root.GenZshCompletion(b) }},
	{"fish/vendor_completions.d/godwit.fish", func(root *cobra.Command, b *bytes.Buffer) error { return root.GenFishCompletion(b, true) }},
}

func completions(files map[string][]byte, root *cobra.Command) error {
	for _, s := range shells {
		var b bytes.Buffer
		if err := s.make(root, &b); err != nil {
			return fmt.Errorf("write the completion %s: %w", s.file, err)
		}
		files[s.file] = b.Bytes()
	}
	return nil
}

// manual collects pages.
type manual struct {
	date   time.Time
	files  map[string][]byte
	turned map[*pflag.Flag]bool
}

// add adds the pages of a command and of all commands below it.
func (m *manual) add(cmd *cobra.Command) error {
	switch {
	case cmd.Name() == "settings":
		settings := &cobra.Command{Use: "godwit.toml", Short: cmd.Short, Long: entries(cmd.Long)}
		settings.Flags().Bool("help", false, "")
		if err := settings.Flags().MarkHidden("help"); err != nil { // a file has no options
			return err
		}
		return m.store(settings, "godwit.toml", "5")
	case cmd.HasParent() && !cmd.IsAvailableCommand():
		return nil
	}
	for _, below := range cmd.Commands() {
		if err := m.add(below); err != nil {
			return err
		}
	}
	return m.page(cmd, strings.ReplaceAll(cmd.CommandPath(), " ", "-"), "1")
}

// page adds the page of one command under a name and in a section of the manual.
func (m *manual) page(cmd *cobra.Command, name, section string) error {
	plain(cmd, m.turned)
	return m.store(cmd, name, section)
}

// store adds the page of a command whose texts are Markdown.
func (m *manual) store(cmd *cobra.Command, name, section string) error {
	cmd.DisableAutoGenTag = true
	var text bytes.Buffer
	header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: section, Date: &m.date, Source: "Godwit " + command.Version, Manual: "Godwit"}
	if err := doc.GenMan(cmd, header, &text); err != nil {
		return fmt.Errorf("write the manual page %s: %w", name, err)
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(text.Bytes()); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	m.files["man/man"+section+"/"+name+"."+section+".gz"] = packed.Bytes()
	return nil
}
