package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// plain turns the texts of a command, which are plain, into the Markdown that the generator of pages reads. It notes the flags whose texts
// it has turned, since commands share them.
func plain(cmd *cobra.Command, turned map[*pflag.Flag]bool) {
	cmd.Short, cmd.Use, cmd.Long = escaped(cmd.Short), escaped(cmd.Use), blocks(cmd.Long)
	turn := func(f *pflag.Flag) {
		if !turned[f] {
			turned[f] = true
			_, usage := pflag.UnquoteUsage(f)
			f.Usage = escaped(usage)
		}
	}
	cmd.LocalFlags().VisitAll(turn)
	cmd.InheritedFlags().VisitAll(turn)
}

// blocks turns text into paragraphs, and into blocks of code where its lines are indented.
func blocks(text string) string {
	var b strings.Builder
	inCode := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		code := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		if code != inCode && line != "" {
			b.WriteByte('\n')
			inCode = code
		}
		switch {
		case line == "":
			// In code it would otherwise end the block.
		case code:
			b.WriteString("    " + line)
		default:
			b.WriteString(atStart.ReplaceAllString(escaped(line), `$1\$2`))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// entries turns the list of settings into sections of entries: each has a name, and an explanation below it.
func entries(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch m := entry.FindStringSubmatch(line); {
		case m != nil:
			b.WriteString("\n**" + escaped(m[1]) + "**\n\t" + escaped(m[2]) + "\n")
		case heading.MatchString(line):
			b.WriteString("\n## " + escaped(line) + "\n")
		default:
			b.WriteString(escaped(line) + "\n")
		}
	}
	return b.String()
}

var (
	entry   = regexp.MustCompile(`^  (\S+)\s+(\S.*)$`)
	heading = regexp.MustCompile(`^\p{Lu}[^.]*$`) // a section's name is no sentence
	special = regexp.MustCompile("[\\\\`*_<>&|\\[\\]]")
	atStart = regexp.MustCompile(`^([0-9]*)([.#+:-])`) // what would begin a list or a heading
)

func escaped(text string) string { return special.ReplaceAllString(text, `\$0`) }
