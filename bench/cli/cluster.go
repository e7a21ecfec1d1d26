package cli

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/internal/server/cli/command"
)

// startPostgres is the value of --postgres that starts a server instead of naming one.
const startPostgres = "start"

const postgresHelp = "URL of a PostgreSQL server on which databases may be made, or start: one is started of the programs that are installed"

// besideFlag adds the flag that measures a scenario on PostgreSQL in addition to SQLite.
func (b *bench) besideFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&b.postgres, "postgres", "", "measure on PostgreSQL and on SQLite in turn; "+postgresHelp)
	return cmd
}

// openPostgres connects to the PostgreSQL server that the flag's value names, or starts one.
func (b *bench) openPostgres(ctx context.Context, how string) (*testbed.Postgres, error) {
	if b.url != "" {
		return nil, command.Usagef("--postgres needs servers that are started for it: leave out --url")
	}
	if how == startPostgres {
		return testbed.StartPostgres(ctx, b.dir, nil)
	}
	u, err := url.Parse(how)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, command.Usagef("--postgres must be %s, or a URL like postgres://godwit@db.example.org/postgres", startPostgres)
	}
	if _, set := u.User.Password(); set || u.Query().Has("password") {
		return nil, command.Usagef("--postgres must not hold a password, which shows in lists of processes and in results; set PGPASSWORD")
	}
	return testbed.OpenPostgres(ctx, how)
}

// onPostgres calls run with a PostgreSQL server.
func (b *bench) onPostgres(how string, run func(context.Context, scenario.Common) (*report.Result, error)) func(context.Context, scenario.Common) (*report.Result, error) {
	return func(ctx context.Context, c scenario.Common) (*report.Result, error) {
		pg, err := b.openPostgres(ctx, how)
		if err != nil {
			return nil, err
		}
		defer pg.Close()
		c.Testbed.Server.Postgres = pg
		return run(ctx, c)
	}
}

func (b *bench) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Several nodes on PostgreSQL: the way between them, what two publish, what commits of several cost, idle sessions, a transaction left open",
		Args:  command.Group,
		RunE:  command.Help,
	}
	var how string
	cmd.PersistentFlags().StringVar(&how, "postgres", startPostgres, postgresHelp)
	cmd.AddCommand(b.clusterRouteCommand(&how), b.clusterNodesCommand(&how), b.clusterCommitsCommand(&how), b.clusterIdleCommand(&how), b.clusterHorizonCommand(&how))
	return cmd
}

// pairsFlag adds the flag for the number of paired measurements in a comparison.
func pairsFlag(cmd *cobra.Command, pairs *int, of string) {
	cmd.Flags().IntVar(pairs, "pairs", 5, "pairs of measurements, "+of+"; --runs has no meaning here")
}

var errPairs = command.Usagef("--pairs must be at least 1")

func (b *bench) checkPairs(l *scenario.Load, pairs int) error {
	if err := b.checkLoad(l); err != nil {
		return err
	}
	if pairs < 1 {
		return errPairs
	}
	return nil
}

func (b *bench) clusterRouteCommand(how *string) *cobra.Command {
	var s scenario.Route
	cmd := &cobra.Command{
		Use:   "route",
		Short: "Latency from one node to a client of another, beside that on one node",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkPairs(&s.Load, s.Pairs); err != nil {
				return err
			}
			return b.measure(cmd, b.onPostgres(*how, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			}))
		},
	}
	loadFlags(cmd.Flags(), &s.Load)
	pairsFlag(cmd, &s.Pairs, "to clients of the same node and of another")
	cmd.Flags().Float64Var(&s.Rate, "rate", 500, "notifications a second; 0: as fast as they are answered")
	defaults(cmd.Flags(), map[string]string{"publishers": "16", "for": "5s"})
	return cmd
}

func (b *bench) clusterNodesCommand(how *string) *cobra.Command {
	var s scenario.Nodes
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "What two nodes publish to the same recipients, beside what one does",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkPairs(&s.Load, s.Pairs); err != nil {
				return err
			}
			return b.measure(cmd, b.onPostgres(*how, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			}))
		},
	}
	loadFlags(cmd.Flags(), &s.Load)
	pairsFlag(cmd, &s.Pairs, "all publishers at one node and half of them at each of two")
	defaults(cmd.Flags(), map[string]string{"publishers": "128", "for": "5s"})
	return cmd
}

func (b *bench) clusterCommitsCommand(how *string) *cobra.Command {
	var s scenario.Commits
	cmd := &cobra.Command{
		Use:   "commits",
		Short: "What the same load costs PostgreSQL on one node and on several",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkPairs(&s.Load, s.Pairs); err != nil {
				return err
			}
			if s.Nodes < 2 || len(s.Rates) == 0 || slices.Min(s.Rates) <= 0 {
				return command.Usagef("--nodes must be at least 2, and each of --rates positive")
			}
			return b.measure(cmd, b.onPostgres(*how, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			}))
		},
	}
	f := cmd.Flags()
	loadFlags(f, &s.Load)
	pairsFlag(cmd, &s.Pairs, "one node and several, for each rate")
	f.IntVar(&s.Nodes, "nodes", 3, "nodes of the cluster that is compared with one node")
	f.Float64SliceVar(&s.Rates, "rates", []float64{150, 800}, "notifications a second, one after the other")
	defaults(f, map[string]string{"warmup": "8s"}) // sessions compare themselves until five seconds after nodes have joined
	return cmd
}

func (b *bench) clusterIdleCommand(how *string) *cobra.Command {
	var s scenario.ClusterIdle
	cmd := &cobra.Command{
		Use:   "idle",
		Short: "Sessions on one node that do nothing: what they cost more than on a single server, and the other nodes and PostgreSQL",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkTransports("transport", s.Transport); err != nil {
				return err
			}
			if s.Sessions < 1 || s.Nodes < 2 || s.Settle <= 0 || s.Watch <= 0 {
				return command.Usagef("--sessions must be at least 1, --nodes at least 2, --settle and --watch positive")
			}
			return b.measure(cmd, b.onPostgres(*how, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			}))
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Transport, "transport", loadgen.WebSocketJSON, "ws-json, ws-proto, grpc, sse or mqtt")
	f.IntVar(&s.Sessions, "sessions", 15_000, "sessions to open, all on one node; each is a file of its process")
	f.IntVar(&s.Nodes, "nodes", 3, "nodes of the cluster")
	f.DurationVar(&s.Settle, "settle", 30*time.Second, "how long memory may settle, before the sessions are opened and with them")
	f.DurationVar(&s.Watch, "watch", time.Minute, "how long PostgreSQL is watched with the sessions, which are compared with it every half a minute; half as long without them")
	return cmd
}

func (b *bench) clusterHorizonCommand(how *string) *cobra.Command {
	var s scenario.Horizon
	cmd := &cobra.Command{
		Use:   "horizon",
		Short: "A transaction that somebody leaves open: the rate, and how tables grow and shrink again; takes 20 minutes",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Batch, s.For = 1, s.Before+s.Hold+s.After
			if err := b.checkLoad(&s.Load); err != nil {
				return err
			}
			if s.Rate <= 0 || s.Before <= 0 || s.Hold <= 0 || s.After <= 0 {
				return command.Usagef("--rate, --before, --hold and --after must be positive")
			}
			return b.measure(cmd, b.onPostgres(*how, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			}))
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Clients, "clients", 1000, "subscribers, one connection and recipient each")
	f.IntVar(&s.Publishers, "publishers", 64, "connections that publish, one request at a time on each")
	f.IntVar(&s.Size, "size", 200, "bytes of data in each notification")
	f.StringVar(&s.Transport, "transport", loadgen.WebSocketJSON, "how subscribers connect: ws-json, ws-proto, grpc, sse or mqtt")
	f.Float64Var(&s.Rate, "rate", 1000, "notifications a second")
	f.DurationVar(&s.Before, "before", 3*time.Minute, "how long the load runs before the transaction begins")
	f.DurationVar(&s.Hold, "hold", 5*time.Minute, "how long the transaction is open")
	f.DurationVar(&s.After, "after", 10*time.Minute, "how long the load goes on after it")
	return cmd
}

// storeCommand returns the command that measures the store alone, without connections.
func (b *bench) storeCommand() *cobra.Command {
	var s scenario.Store
	cmd := &cobra.Command{
		Use:   "store",
		Short: "The mailboxes' store alone: publish and acknowledge",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.url != "" {
				return command.Usagef("store measures a store in this process: leave out --url")
			}
			if s.Publishers < 1 || s.Recipients < 1 || s.Size < 1 || s.For <= 0 || s.Warmup < 0 {
				return command.Usagef("--publishers, --recipients, --size and --for must be positive, --warmup not negative")
			}
			if err := b.unconfined(); err != nil {
				return err
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Publishers, "publishers", 512, "publishers, each waiting for its commit")
	f.IntVar(&s.Recipients, "recipients", 10_000, "recipients")
	f.IntVar(&s.Size, "size", 200, "bytes of data in each notification")
	f.DurationVar(&s.Warmup, "warmup", 2*time.Second, "how long to publish before measuring")
	f.DurationVar(&s.For, "for", 10*time.Second, "how long to measure")
	return cmd
}
