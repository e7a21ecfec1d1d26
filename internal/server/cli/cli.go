// Package cli is the command line: it runs the server of package app, works on a data folder whose server may be running, and calls a
// server's API through the Go client.
package cli

import (
	"cmp"
	"context"
	"io"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/modules"
)

// program holds what every command needs.
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
	data           string
	operatorFile   string
	local          bool
	called         *server // by the last client; nil: none was made
	presented      string  // the key that it presents
	ca             string
	modules        []module.Module
	flush          []func() error // called last of all, before the process ends
}

// Main is a command line: see Run.
type Main = func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) (exit int)

// Run runs the command line args, without the program's name, until it is done or ctx ends, and returns the exit code. Each element of
// environ is "KEY=VALUE".
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	return With(modules.All()...)(ctx, args, stdin, stdout, stderr, environ)
}

// With is Run for a server with these modules.
func With(modules ...module.Module) Main {
	return func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
		p := &program{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ, args: args, modules: modules}
		return p.run(ctx)
	}
}

func (p *program) run(ctx context.Context) int {
	p.colour = command.Terminal(p.stdout) && p.env("NO_COLOR") == "" && p.env("TERM") != "dumb"
	err := config.CheckSections(p.sections()) // before there are two flags of one name
	if err == nil {
		err = app.Admit(p.modules)
	}
	if err != nil {
		return command.Fail(p.stderr, p.json, &cobra.Command{Use: "godwit"}, err, func(error) string { return "" })
	}
	p.benchHelps()
	root := p.root()
	root.SetArgs(p.args)
	defer func() {
		for _, f := range p.flush {
			_ = f() // if the output cannot be written, nobody could read the error
		}
	}()
	cmd := root
	if err = p.addModules(root); err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	if err == nil {
		return command.ExitOK
	}
	return command.Fail(p.stderr, p.json, cmd, err, func(err error) string { return cmp.Or(p.hintFor(err), hintForRequest(cmd, err)) })
}

func (p *program) root() *cobra.Command {
	g := command.Globals{JSON: &p.json, Context: &p.context, URL: &p.url, KeyFile: &p.keyFile, CA: &p.ca}
	root := g.Root(p.stdin, p.stdout, p.stderr)
	root.PersistentFlags().StringVar(&p.data, "data", "", "data folder of the server that runs here (default: "+config.DefaultData+")")
	root.PersistentFlags().StringVar(&p.operatorFile, "operator-key-file", "", "file with the operator key (default: GODWIT_OPERATOR_KEY_FILE, the context's key, or operator.key in the data folder)")
	root.Short = "A notification server: hand it a notification once, it gets it to the recipient"
	root.Long = `Godwit is a notification server. A back end hands it a notification once; it gets it to the recipient over a live
connection, keeps trying until it is acknowledged or expires, and says at any time what became of it.

Start with: godwit serve --dev
Commands to copy: godwit examples`
	root.AddCommand(
		p.serveCommand(), p.loginCommand(), p.operatorCommand(), p.appCommand(), p.keyCommand(), p.tokenCommand(), p.publishCommand(), p.statusCommand(), p.whyCommand(), p.recallCommand(), p.recipientCommand(), p.inboxCommand(), p.listenCommand(), p.requestCommand(), p.serveSubjectCommand(), p.campaignCommand(), p.templateCommand(), p.segmentCommand(),
		p.channelCommand(), p.sourceCommand(), p.sinkCommand(), p.categoryCommand(), p.digestCommand(), p.preferencesCommand(),
		p.eventsCommand(), p.auditCommand(), p.hookCommand(), p.contextCommand(), p.objectCommand(), p.topicCommand(), p.topCommand(), p.clusterCommand(), p.drainCommand(), p.readyCommand(), p.doctorCommand(), p.configCommand(), p.backupCommand(), p.restoreCommand(), p.benchCommand(),
		p.endpointCommand(), p.importCommand(), p.migrateCommand(), p.versionCommand(), p.examplesCommand(),
	)
	p.group(root)
	exemplify(root)
	if completes(p.args) {
		p.complete(root) // only when a shell completes, since it examines each flag of each command
	}
	return root
}

func help(cmd *cobra.Command, args []string) error { return command.Help(cmd, args) }

func subcommandOnly(cmd *cobra.Command, args []string) error { return command.Group(cmd, args) }

func exactly(names ...string) cobra.PositionalArgs { return command.Exactly(names...) }

func (p *program) env(name string) string { return command.Env(p.environ, name) }

func (p *program) line(v any) error { return command.Line(p.stdout, v) }
