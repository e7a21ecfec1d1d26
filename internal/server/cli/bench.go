package cli

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/cli/command"
)

func (p *program) benchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast a server is, and what it costs",
		Long: `Measure how fast a server is, and what it costs. The program godwit-bench does it, which lies beside godwit or in PATH.
It is in the same archives, Debian packages and images; in a clone, make build makes both. Once it is installed,
godwit bench --help lists what it measures.`,
		DisableFlagParsing: true,
		ValidArgsFunction:  cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := command.Find(command.BenchProgram)
			switch {
			case err == nil:
				return p.become(path, args)
			case slices.Contains(args, "--help") || slices.Contains(args, "-h"):
				return cmd.Help()
			}
			p.json = slices.Contains(args, "--json")
			return withHint(err, "install it from the archive or the Debian package that godwit came in; in a clone, make build makes both")
		},
	}
}

// benchHelps runs the bench program instead of this one if a shell completes its arguments, or if its help is requested by name. Otherwise,
// or if the program is not installed, it returns.
func (p *program) benchHelps() {
	var args []string
	switch {
	case len(p.args) < 2 || p.args[1] != "bench":
		return
	case p.args[0] == "help":
		args = append(slices.Clone(p.args[2:]), "--help")
	case completes(p.args) && len(p.args) > 2:
		args = slices.Delete(slices.Clone(p.args), 1, 2)
	default:
		return
	}
	if path, err := command.Find(command.BenchProgram); err == nil {
		_ = p.become(path, args) // on failure only godwit's own commands are shown
	}
}

// become replaces this process with the bench program, so that signals, output and exit code are that program's own. It returns only on an
// error.
func (p *program) become(path string, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which is to be measured: %w", err)
	}
	environ := append(slices.Clone(p.environ), command.MeasuredServer+"="+self)
	err = syscall.Exec(path, append([]string{command.BenchProgram}, args...), environ)
	return fmt.Errorf("run %s: %w", path, err)
}
