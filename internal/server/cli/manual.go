package cli

import (
	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/modules"
)

// Manual returns the command line with all of its commands, for programs that write manual pages and completions. It must not be run.
func Manual() *cobra.Command {
	root := whole(modules.All())
	root.InitDefaultCompletionCmd()
	return root
}
