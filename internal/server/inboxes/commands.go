package inboxes

import (
	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/module"
)

// commands are godwit inbox.
func commands(module.Program) []*cobra.Command { return nil }
