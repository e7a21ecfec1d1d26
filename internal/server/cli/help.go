package cli

import (
	_ "embed"
	"strings"

	"github.com/spf13/cobra"
)

// helpText contains, for each command that has none below it, a line "# command" and examples of it, as help shows them.
//
//go:embed help.txt
var helpText string

// exemplify adds the examples to the commands.
func exemplify(root *cobra.Command) {
	all := helpText
	for all != "" {
		var part string
		part, all, _ = strings.Cut(all, "\n\n")
		path, examples, _ := strings.Cut(strings.TrimPrefix(part, "# "), "\n")
		if cmd := below(root, path); cmd != nil {
			cmd.Example = strings.TrimRight(examples, "\n")
		}
	}
}

// below returns the command with a path of names separated by spaces; nil: there is none.
func below(cmd *cobra.Command, path string) *cobra.Command {
	name, rest, more := strings.Cut(path, " ")
	for _, sub := range cmd.Commands() {
		switch {
		case sub.Name() != name:
		case more:
			return below(sub, rest)
		default:
			return sub
		}
	}
	return nil
}
