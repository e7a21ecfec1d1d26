package cli

import (
	"cmp"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/modules"
)

// Commands returns the help of all commands.
func Commands() []module.Command {
	return commandsBelow(whole(modules.All()))
}

// whole returns the command line with the commands of these modules, to be read and not run.
func whole(list []module.Module) *cobra.Command {
	p := &program{modules: list, stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	root := p.root()
	if err := p.addModules(root); err != nil {
		panic(err) // the tests run this
	}
	return root
}

// commandsBelow returns the help of all commands below one, those that have commands of their own included.
func commandsBelow(parent *cobra.Command) (found []module.Command) {
	for _, c := range parent.Commands() {
		if c.Hidden || c.IsAdditionalHelpTopicCommand() {
			continue
		}
		found = append(found, module.Command{
			Path: c.CommandPath(), Short: c.Short, Long: cmp.Or(c.Long, c.Short), Usage: usage(c), Examples: strings.TrimRight(c.Example, "\n"),
			Flags: strings.TrimRight(c.LocalFlags().FlagUsages(), "\n"),
		})
		found = append(found, commandsBelow(c)...)
	}
	return found
}

// usage is a command's usage, or those of the commands below it.
func usage(c *cobra.Command) string {
	if c.Runnable() && !c.HasSubCommands() {
		return c.UseLine()
	}
	var lines []string
	for _, below := range c.Commands() {
		if !below.Hidden {
			lines = append(lines, below.UseLine())
		}
	}
	return strings.Join(lines, "\n")
}
