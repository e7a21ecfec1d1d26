package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Manual returns the command godwit bench below its parent, for programs that write manual pages. It must not be run.
func Manual() *cobra.Command {
	b := &bench{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	cmd := b.command()
	b.root().AddCommand(cmd)
	return cmd
}
