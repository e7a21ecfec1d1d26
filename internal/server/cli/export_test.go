package cli

import (
	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/modules"
)

// Root returns the whole command line, with the commands of modules.
func Root() *cobra.Command { return whole(modules.All()) }
