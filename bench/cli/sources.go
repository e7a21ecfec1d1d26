package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) sourcesCommand() *cobra.Command {
	var s scenario.Sources
	cmd := &cobra.Command{
		Use:   "sources",
		Short: "How soon notifications of PostgreSQL transactions reach clients, what they cost, and how much of its log PostgreSQL keeps for them",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case b.url != "":
				return startsAll("sources")
			case s.Clients < 1 || s.Writers < 1 || s.Rate <= 0 || s.Size < 1 || s.For <= 0:
				return command.Usagef("--clients, --writers, --rate, --size and --for must be positive")
			case s.Warmup < 0 || s.Rows < 0 || s.Bulk < 0 || s.Other < 0:
				return command.Usagef("--warmup, --rows, --bulk and --other must not be negative")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Clients, "clients", 1000, "clients that are online")
	f.IntVar(&s.Writers, "writers", 16, "connections that commit transactions, or publish over HTTP")
	f.Float64Var(&s.Rate, "rate", 1000, "transactions a second, of one notification each")
	f.IntVar(&s.Size, "size", 200, "bytes of a notification's data")
	f.DurationVar(&s.Warmup, "warmup", 2*time.Second, "how long to publish beforehand")
	f.DurationVar(&s.For, "for", 10*time.Second, "how long to publish each way")
	f.IntVar(&s.Rows, "rows", 100_000, "transactions of one row that wait when the source begins, for what each costs; 0: that is not measured")
	f.IntVar(&s.Bulk, "bulk", 200_000, "messages of one transaction; 0: that is not measured")
	f.IntVar(&s.Other, "other", 1024, "megabytes that another database of the server writes; 0: that is not measured")
	return cmd
}
