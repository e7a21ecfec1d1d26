package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) migrateCommand() *cobra.Command {
	var m scenario.Migrate
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "A client over QUIC changes its address while notifications come",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.url != "" || m.Moves < 1 || m.Rate <= 0 || m.Every <= 0 {
				return command.Usagef("migrate needs a server that is started for it, --moves of at least 1, and --rate and --every above 0")
			}
			b.tls = true
			b.serveQUIC()
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				m.Common = c
				return m.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&m.Moves, "moves", 100, "how often the client moves to another socket")
	f.DurationVar(&m.Every, "every", 100*time.Millisecond, "time between two moves")
	f.Float64Var(&m.Rate, "rate", 200, "notifications a second")
	return cmd
}
