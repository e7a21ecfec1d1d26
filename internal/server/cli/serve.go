package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/app/logs"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/module"
)

func (p *program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until it is interrupted. Settings come from flags, GODWIT_* variables and godwit.toml, in this order of
precedence. With --dev it serves the app demo whose API key is dev, to this machine only.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			outliveReaders()
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			dropped := p.unblockOutput(c)
			log := logs.New(c, p.stderr)
			for _, name := range config.UnknownEnv(p.environ, p.sections()...) {
				log.Debug("environment variable is not a setting", "name", name)
			}
			addThread()
			told, untold := drainSignal()
			defer untold()
			var operator string // that this start has made
			opts := app.Options{
				Log: log, LogLost: dropped, Version: command.Version, Drain: told, Modules: p.modules, OperatorKey: func(key string) { operator = key },
				Commands: func() []module.Command { return commandsBelow(cmd.Root()) },
			}
			err = app.Run(cmd.Context(), c, opts, func(a datadir.Addresses) { p.sayReady(c, a, operator) })
			if err != nil {
				return fmt.Errorf("server: %w", err)
			}
			return nil
		},
	}
	p.settingFlags(cmd)
	p.inSections(cmd)
	return cmd
}

// fewCores is the number of cores below which a server runs goroutines on one thread more than there are cores.
const fewCores = 4

// addThread lets the Go runtime run goroutines on one thread more than there are cores, unless GOMAXPROCS sets a number.
// If other processes keep all cores busy, the kernel takes a thread off its core for milliseconds, and delays all
// goroutines queued on that thread. On two cores that was most of the mailbox's p99 beside a storm of topics
// (docs/performance.md); on many cores another thread is free.
func addThread() {
	if n := runtime.GOMAXPROCS(0); n < fewCores && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(n + 1)
	}
}

// sayReady prints where the server listens, where its web page is, and what to try next. On a development server it also shows the operator
// key that this start has made; other servers keep it in the data folder alone.
func (p *program) sayReady(c *config.Config, a datadir.Addresses, operator string) {
	if p.json {
		_ = p.line(a) // a closed standard output must not stop a server
		return
	}
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	var b strings.Builder
	if a.HTTP != "" {
		fmt.Fprintf(&b, "HTTP  %s\n", displayAddr(scheme, a.HTTP))
	}
	if a.GRPC != "" {
		fmt.Fprintf(&b, "gRPC  %s\n", strings.TrimPrefix(displayAddr("grpc", a.GRPC), "grpc://"))
	}
	if a.HTTP != "" {
		url := displayAddr(scheme, a.HTTP)
		fmt.Fprintf(&b, "Page  %s/\n", url)
		self := p.invocation()
		if c.Dev {
			b.WriteString(p.firstSteps(url, self, operator))
		} else if operator != "" {
			fmt.Fprintf(&b, "\nThis is a new server. Its operator key is in %s. Make an app, then a key to sign in to the page with:\n\n  %s\n  %s\n\n",
				filepath.Join(c.Data, access.OperatorFile), p.paint(green, self+" app create rides --data "+c.Data), p.paint(green, self+" key create --role admin --data "+c.Data))
		}
	}
	_, _ = fmt.Fprint(p.stdout, b.String()) // a closed standard output must not stop a server
}

// firstSteps returns what a development server says about its keys, and two commands to copy.
func (p *program) firstSteps(url, self, operator string) string {
	env := ""
	if url != defaultURL {
		env = "GODWIT_URL=" + url + " "
	}
	made := ""
	if operator != "" {
		made = "\nOperator key, which manages apps, shown this once: " + p.paint(bold, operator) + "\n"
	}
	return fmt.Sprintf(`%s
Godwit is running: app %s, API key %s. Now in another terminal, listen as a driver, then send them a ride:

  %s
  %s

`, made, p.paint(bold, access.DevApp), p.paint(bold, access.DevKey),
		p.paint(green, env+self+" listen driver-42 -n 1 &"),
		p.paint(green, env+self+` publish driver-42 --title "New ride" --body "2.1 km away" --wait 10s`))
}

// invocation returns the command that runs this program from the current folder.
func (p *program) invocation() string {
	self, err := os.Executable()
	if err != nil {
		return "godwit"
	}
	if found, err := exec.LookPath("godwit"); err == nil || errors.Is(err, exec.ErrDot) {
		if same, err := filepath.EvalSymlinks(found); err == nil && same == self {
			return "godwit"
		}
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, self); err == nil && !strings.HasPrefix(rel, "..") {
			return "./" + rel
		}
	}
	return self
}
