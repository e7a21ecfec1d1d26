package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
	"godwit.dev/godwit/internal/server/cli/command"
)

// benchToken is the environment variable with the token of a run.
const benchToken = "GODWIT_BENCH_TOKEN"

// joinFlags adds the flags of scenarios whose clients may run on other machines.
func (b *bench) joinFlags(f *pflag.FlagSet) {
	f.StringVar(&b.joinAddr, "join-addr", "", "host:port of this machine at which other machines join, to hold the clients; measured servers listen at the same host, open to all who reach it")
	f.IntVar(&b.machines, "machines", 1, "with --join-addr: how many machines must join before the measurement begins")
}

// join lets other machines hold the clients, if flags say so. The caller must call end.
func (b *bench) join(ctx context.Context, l *testbed.Testbed) (end func(), err error) {
	end = func() {}
	if b.joinAddr == "" {
		return end, nil
	}
	host, _, err := net.SplitHostPort(b.joinAddr)
	if err != nil {
		return end, command.Usagef("--join-addr %q must be host:port", b.joinAddr)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return end, command.Usagef("--join-addr must name an address of this machine that the others reach, not all of them")
	}
	if b.machines < 1 {
		return end, command.Usagef("--machines must be at least 1")
	}
	token, shown := command.Env(b.environ, benchToken), "the same"
	if token == "" {
		token = worker.NewToken()
		shown = token
	}
	if len(token) < worker.LeastToken {
		return end, command.Usagef("%s must have at least %d random characters", benchToken, worker.LeastToken)
	}
	run, err := worker.NewRun(ctx, b.joinAddr, token, b.machines)
	if err != nil {
		return end, err
	}
	fmt.Fprintf(b.stderr, "waiting for %d to join; on each machine: %s=%s %s worker --join %s\n", b.machines, benchToken, shown, command.BenchProgram, run.Addr())
	if l.Machines, err = run.Machines(ctx); err != nil {
		run.Close()
		return end, err
	}
	l.Run, l.Server.Host = run, host
	return run.Close, nil
}

func (b *bench) workerCommand() *cobra.Command {
	var addr, name string
	cmd := &cobra.Command{
		Use:   "worker --join HOST:PORT",
		Short: "Hold clients for a measurement that runs on another machine",
		Long: `Hold clients for a measurement that another machine runs with --join-addr, until that ends. Its token is read from
` + benchToken + `. The run decides which servers this machine connects to: join those of people you trust.
Without --join, requests are read from standard input: so the other processes of a measurement are started.`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if addr == "" {
				return worker.Serve(cmd.Context(), b.stdin, b.stdout)
			}
			return b.joinRun(cmd.Context(), addr, name)
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "join", "", "host:port that the run prints")
	f.StringVar(&name, "name", "", "name of this machine in the result (default: its host name)")
	return cmd
}

func (b *bench) joinRun(ctx context.Context, addr, name string) error {
	token := command.Env(b.environ, benchToken)
	if token == "" {
		return command.Usagef("%s must hold the token that the run prints", benchToken)
	}
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return command.WithHint(err, "name this machine with --name")
		}
	}
	if err := worker.CheckName(name); err != nil {
		return command.Usagef("--name: %v", err)
	}
	err := worker.Join(ctx, addr, token, name)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return command.WithHint(err, "start the measurement first, with --join-addr: it prints what to type here")
	}
	return nil
}
