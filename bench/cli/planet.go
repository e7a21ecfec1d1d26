package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) planetCommand() *cobra.Command {
	var s scenario.Planet
	var how string
	cmd := &cobra.Command{
		Use:   "planet",
		Short: "Where a deployment ends: tables of nodes with a hundred million recipients, a database with ten million",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.Recipients < 1 || len(s.Nodes) == 0 || slices.Min(s.Nodes) < 2 || s.Lasts <= 0 || s.Mbit <= 0 || s.Transit < 0 {
				return command.Usagef("--recipients, --lasts and --mbit must be positive, each of --nodes at least 2, --transit not negative")
			}
			if s.Stored < 0 || s.FillFor <= 0 || s.Readers < 1 || s.For <= 0 {
				return command.Usagef("--stored must not be negative, --fill-for, --readers and --for must be positive")
			}
			run := func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			}
			if s.Stored > 0 {
				run = b.onPostgres(how, run)
			}
			return b.measure(cmd, run)
		},
	}
	f := cmd.Flags()
	f.StringVar(&how, "postgres", startPostgres, postgresHelp)
	f.IntVar(&s.Recipients, "recipients", 100_000_000, "connected recipients, over all nodes")
	f.IntSliceVar(&s.Nodes, "nodes", []int{3, 10, 30, 100}, "numbers of nodes, one after the other")
	f.DurationVar(&s.Lasts, "lasts", 30*time.Minute, "how long a connection lasts, for the rate of comings and goings")
	f.Float64Var(&s.Mbit, "mbit", 1000, "megabits a second that each node can receive, in the model of the network")
	f.DurationVar(&s.Transit, "transit", 500*time.Microsecond, "transit time of a message, in the model of the network")
	f.IntVar(&s.Stored, "stored", 10_000_000, "recipients in the database, each with one settled notification; 0: no database")
	f.DurationVar(&s.FillFor, "fill-for", 15*time.Minute, "after which time the database has enough recipients")
	f.IntVar(&s.Readers, "readers", 4, "connections that compare mailboxes at once")
	f.DurationVar(&s.For, "for", 20*time.Second, "how long each measurement on the database takes")
	return cmd
}
