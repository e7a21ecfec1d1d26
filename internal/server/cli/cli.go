// Package cli is the command line: it drives the server in package app, the data folder of one that may be running
// beside it, and, through the Go client, a server's API.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// Version is what this program calls itself.
const Version = "0.1.0"

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2 // the command line makes no sense
)

// program is what every command needs.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	args           []string
	json           bool
	colour         bool
	context        string
	url            string
	keyFile        string
	ca             string
	flush          []func() error // before the process ends, last of all
}

// Run runs the command line args, without the program's name, until it is done or ctx ends, and returns the exit
// code. environ is "KEY=VALUE" each.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ, args: args}
	p.colour = terminal(stdout) && p.env("NO_COLOR") == "" && p.env("TERM") != "dumb"
	root := p.root()
	root.SetArgs(args)
	defer func() {
		for _, f := range p.flush {
			_ = f() // what cannot be written has nobody to read it
		}
	}()
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	p.report(cmd, err)
	var u *usageError
	if errors.As(err, &u) {
		return ExitUsage
	}
	return ExitFailed
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "godwit",
		Short: "A notification server: hand it a notification once, it gets it to the recipient",
		Long: `Godwit is a notification server. A back end hands it a notification once; it gets it to the recipient over a live
connection, keeps trying until it is acknowledged or expired, and says at any time what became of it.

Start with: godwit serve --dev
Commands to copy: godwit examples`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommandOnly,
		RunE:          help,
	}
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(badFlag)
	f := root.PersistentFlags()
	f.BoolVar(&p.json, "json", false, "print JSON, one object a line where there are several")
	f.StringVar(&p.context, "context", "", "server to talk to, by its name in contexts.toml")
	f.StringVar(&p.url, "url", "", "server to talk to, as a URL (default: GODWIT_URL, else http://127.0.0.1:8080)")
	f.StringVar(&p.keyFile, "api-key-file", "", "file with the API key (default: the key in GODWIT_API_KEY)")
	f.StringVar(&p.ca, "ca", "", "PEM file with the authority of the server's certificate, trusted beside the system's (or set SSL_CERT_FILE)")
	root.AddCommand(
		p.serveCommand(), p.appCommand(), p.keyCommand(), p.tokenCommand(), p.publishCommand(), p.statusCommand(), p.whyCommand(), p.recallCommand(), p.recipientCommand(), p.listenCommand(), p.requestCommand(), p.serveSubjectCommand(), p.campaignCommand(), p.templateCommand(),
		p.channelCommand(), p.sourceCommand(), p.sinkCommand(), p.categoryCommand(), p.preferencesCommand(),
		p.eventsCommand(), p.auditCommand(), p.hookCommand(), p.contextCommand(), p.objectCommand(), p.topicCommand(), p.topCommand(), p.clusterCommand(), p.drainCommand(), p.readyCommand(), p.doctorCommand(), p.configCommand(), p.backupCommand(), p.restoreCommand(), p.benchCommand(),
		p.endpointCommand(), p.importCommand(), p.migrateCommand(), p.versionCommand(), p.examplesCommand(),
	)
	if len(p.args) > 0 && (p.args[0] == cobra.ShellCompRequestCmd || p.args[0] == cobra.ShellCompNoDescRequestCmd) {
		p.complete(root) // for shells alone, as it looks at each flag of each command
	}
	return root
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// subcommandOnly is the argument rule of commands that only group others.
func subcommandOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return withHint(&usageError{errors.New(text)}, "did you mean %s %s?", cmd.CommandPath(), near[0])
	}
	return withHint(&usageError{errors.New(text)}, "%s --help lists them", cmd.CommandPath())
}

// exactly is the argument rule of commands that take n arguments with these names.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return withHint(usagef("%s is missing its %s", cmd.CommandPath(), names[len(args)]), "usage: %s", cmd.UseLine())
		case len(args) > len(names):
			return withHint(usagef("%s takes no argument %q", cmd.CommandPath(), args[len(names)]), "usage: %s; put what has spaces into quotes", cmd.UseLine())
		}
		return nil
	}
}

// env returns an environment variable; as for a process, the last of several counts.
func (p *program) env(name string) string {
	for i := len(p.environ) - 1; i >= 0; i-- {
		if kv := p.environ[i]; len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:]
		}
	}
	return ""
}

func terminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
