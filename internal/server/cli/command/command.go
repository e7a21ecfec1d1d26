// Package command is shared by the command lines of this project: common flags, rules for arguments, errors with hints, and the search for
// the other programs of an installation.
package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Version is the version that the programs report.
const Version = "0.1.0"

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2 // the command line is invalid
)

// Main runs a command line as this process: run gets its arguments, streams and environment ("KEY=VALUE" each) and returns the exit code.
// The context ends at the first signal; a second signal ends the process at once, as without a handler.
func Main(run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) (exit int)) (exit int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
}

// Globals holds pointers to the values of the flags that every command has.
type Globals struct {
	JSON                      *bool
	Context, URL, KeyFile, CA *string
}

// Root returns the command godwit with the flags of g, without subcommands.
func (g Globals) Root(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "godwit",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          Group,
		RunE:          Help,
	}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(badFlag)
	g.flags(root.PersistentFlags())
	return root
}

func (g Globals) flags(f *pflag.FlagSet) {
	f.BoolVar(g.JSON, "json", false, "print JSON, one object a line where there are several")
	f.StringVar(g.Context, "context", "", "server to talk to, by its name in contexts.toml")
	f.StringVar(g.URL, "url", "", "server to talk to, as a URL (default: GODWIT_URL, else http://127.0.0.1:8080)")
	f.StringVar(g.KeyFile, "api-key-file", "", "file with the API key (default: the key in GODWIT_API_KEY)")
	f.StringVar(g.CA, "ca", "", "PEM file with the authority of the server's certificate, trusted beside the system's (or set SSL_CERT_FILE)")
}

// Help is the action of commands that only group others.
func Help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// Env returns an environment variable of environ ("KEY=VALUE" each); as in a process, the last of several wins.
func Env(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if kv := environ[i]; len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:]
		}
	}
	return ""
}

// Line prints one JSON object as a line.
func Line(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// Terminal reports whether w is a terminal.
func Terminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
