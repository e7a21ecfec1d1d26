// Package cli is the command line of godwit-bench, which also serves as the subcommand "godwit bench".
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/internal/server/cli/command"
)

// bench holds the state that the scenarios' commands share.
type bench struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	args           []string // of godwit
	json           bool
	url            string

	runs       int
	workers    int
	serverArgs []string
	serverEnv  []string
	tls        bool
	dir        string
	grpc       string
	pid        int
	profile    string
	report     string
	svg        string
	postgres   string // PostgreSQL server to measure beside SQLite; "": only SQLite is measured
	cores      int
	memory     string
	joinAddr   string // where other machines join; "": none does
	machines   int    // how many
	note       string // sentence about the measurement for its result
}

// Run runs godwit bench with these arguments until it is done or ctx ends, and returns the exit code. environ is "KEY=VALUE" each.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	at := 0
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		at = 1
	}
	b := &bench{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ, args: slices.Insert(slices.Clone(args), at, "bench")}
	root := b.root()
	root.AddCommand(b.command())
	root.SetArgs(b.args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return command.ExitOK
	}
	return command.Fail(stderr, b.json, cmd, err, command.HintForSystem)
}

// root returns the command godwit without subcommands.
func (b *bench) root() *cobra.Command {
	var ignored string // receives global flags of godwit that have no effect here
	g := command.Globals{JSON: &b.json, URL: &b.url, Context: &ignored, KeyFile: &ignored, CA: &ignored}
	return g.Root(b.stdin, b.stdout, b.stderr)
}

func (b *bench) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast a server is, and what it costs",
		Long: `Measure a server that is started for it, on a temporary data folder, with load from processes of their own; or, with
--url, one that runs already. Latencies count from when a message was due, so that a server that stalls cannot hide it.
A server under --url must be a development server (--dev) on this machine: latencies need one clock.`,
		Args: command.Group,
		RunE: command.Help,
	}
	b.flags(cmd.PersistentFlags())
	cmd.AddCommand(
		b.besideFlag(b.unicastCommand()), b.besideFlag(b.fanoutCommand()), b.topicsCommand(), b.topicsSlowCommand(), b.slowCommand(), b.slaCommand(),
		b.idleCommand(), b.acceptCommand(), b.besideFlag(b.stormCommand()), b.matrixCommand(), b.compareCommand(), b.mqttCommand(), b.objectsCommand(), b.reportCommand(),
		b.workerCommand(), b.besideFlag(b.escalationCommand()), b.phonesCommand(), b.gatewayCommand(), b.gatewayPartCommand(), b.clusterCommand(), b.besideFlag(b.storeCommand()),
		b.nammayatriCommand(), b.sourcesCommand(), b.docsCommand(), b.consoleCommand(), b.migrateCommand(), b.inboxCommand(), b.planetCommand(), b.pushCommand(), b.recipientsCommand(),
		b.besideFlag(b.serialCommand()),
	)
	return cmd
}

func (b *bench) flags(f *pflag.FlagSet) {
	f.IntVar(&b.runs, "runs", 3, "how often to measure; medians and spread are told")
	f.IntVar(&b.workers, "workers", 1, "least number of processes that hold subscribers; each has one event loop")
	f.StringArrayVar(&b.serverArgs, "server-arg", nil, "argument for godwit serve, such as --server-arg=--window=256; may be repeated")
	f.StringArrayVar(&b.serverEnv, "server-env", nil, "environment variable for the server, KEY=VALUE; may be repeated")
	f.BoolVar(&b.tls, "tls", false, "serve and connect with TLS")
	f.StringVar(&b.dir, "data-dir", "", "where the servers' data folders are made (default: the system's place for temporary files)")
	f.StringVar(&b.grpc, "grpc-url", "", "with --url: host:port of the same server's gRPC listener")
	f.IntVar(&b.pid, "pid", 0, "with --url: process id of the server, to measure its CPU time and memory")
	f.StringVar(&b.report, "report", "", "file for a page with plots, complete in itself (HTML)")
	f.StringVar(&b.svg, "svg", "", "folder for the plots alone (SVG)")
	f.IntVar(&b.cores, "cores", 0, "cores that the servers may use, which load generators leave to them as far as others are left (default: all; on Linux)")
	f.StringVar(&b.memory, "memory", "", "memory that each server may use, such as 1GB: by GOMEMLIMIT, and by a cgroup where one may be made (default: all; on Linux)")
	f.StringVar(&b.note, "note", "", "sentence that goes into the result, such as what else the machine did")
	f.StringVar(&b.profile, "profile", "", "file for a CPU profile of the server during the measured phase")
}

// common prepares the settings that every scenario needs. say prints progress until done is called.
func (b *bench) common(ctx context.Context) (c scenario.Common, done func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return c, nil, fmt.Errorf("find this program: %w", err)
	}
	if b.runs < 1 || b.workers < 1 {
		return c, nil, command.Usagef("--runs and --workers must be at least 1")
	}
	confined, err := b.confined()
	if err != nil {
		return c, nil, err
	}
	server, err := b.measured()
	if err != nil {
		return c, nil, err
	}
	l := &testbed.Testbed{
		Server:  testbed.ServerOptions{Command: server, Args: b.serverArgs, Env: b.serverEnv, TLS: b.tls, Dir: b.dir, Confined: confined},
		Self:    self,
		Profile: b.profile,
	}
	if l.Running, err = b.running(ctx); err != nil {
		return c, nil, err
	}
	l.Progress, done = b.progress()
	return scenario.Common{Testbed: l, Runs: b.runs, Workers: b.workers, Command: b.commandLine(), Version: command.Version}, done, nil
}

// measured returns the command line of the server program to start; nil: --url names a running server.
func (b *bench) measured() ([]string, error) {
	if b.url != "" {
		return nil, nil
	}
	if path := command.Env(b.environ, command.MeasuredServer); path != "" {
		return []string{path}, nil
	}
	path, err := command.Find(command.ServerProgram)
	if err != nil {
		return nil, command.WithHint(err, "install it beside this program, name its path in %s, or name a server that runs with --url", command.MeasuredServer)
	}
	return []string{path}, nil
}

// running returns the server named by --url; nil: the flag is not set.
func (b *bench) running(ctx context.Context) (*testbed.Server, error) {
	if b.url == "" {
		return nil, nil
	}
	u, err := url.Parse(b.url)
	if err != nil || u.Host == "" {
		return nil, command.Usagef("--url %q is not a URL", b.url)
	}
	key := command.Env(b.environ, "GODWIT_API_KEY")
	if key == "" {
		key = "dev"
	}
	return testbed.Existing(ctx, loadgen.Target{HTTP: u.Host, GRPC: b.grpc, TLS: u.Scheme == "https", Key: key}, b.pid)
}

// progress shows a status line on a terminal, which each call of say overwrites. Without a terminal, it prints nothing.
func (b *bench) progress() (say func(string), done func()) {
	if !command.Terminal(b.stderr) {
		return nil, func() {}
	}
	return func(line string) { fmt.Fprintf(b.stderr, "\r\x1b[K%s", line) }, func() { fmt.Fprint(b.stderr, "\r\x1b[K") }
}

// commandLine returns the command that repeats this measurement.
func (b *bench) commandLine() string {
	words := append([]string{"godwit"}, b.args...)
	for i, w := range words {
		if strings.ContainsAny(w, " \t'\"$&;|<>*?()") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// measure runs a scenario and shows its result.
func (b *bench) measure(cmd *cobra.Command, run func(context.Context, scenario.Common) (*report.Result, error)) error {
	c, done, err := b.common(cmd.Context())
	if err != nil {
		return err
	}
	end, err := b.join(cmd.Context(), c.Testbed)
	defer end()
	if err != nil {
		return err
	}
	if b.postgres != "" {
		one := run
		run = b.onPostgres(b.postgres, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
			return scenario.Beside(ctx, c, one)
		})
	}
	r, err := run(cmd.Context(), c)
	done()
	if cmd.Context().Err() != nil {
		return errors.New("interrupted")
	}
	if r == nil || len(r.Figures) == 0 {
		return fmt.Errorf("bench %s: %w", cmd.Name(), err)
	}
	if err != nil {
		err = fmt.Errorf("bench %s: %w", cmd.Name(), err)
	}
	if b.note != "" {
		r.Note(b.note)
	}
	return errors.Join(b.show(r), err) // show the measurements made before the failure, too
}

// startsAll refuses --url for a measurement that needs processes of its own.
func startsAll(name string) error {
	return command.Usagef("%s starts all processes by itself: leave out --url", name)
}
