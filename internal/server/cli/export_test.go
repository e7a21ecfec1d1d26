package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/app"
)

// Root returns the whole command line, with the commands of modules.
func Root() *cobra.Command {
	p := &program{modules: app.Modules(), stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	root := p.root()
	if err := p.addModules(root); err != nil {
		panic(err)
	}
	return root
}
