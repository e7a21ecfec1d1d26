package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) recipientsCommand() *cobra.Command {
	var s scenario.Recipients
	cmd := &cobra.Command{
		Use:   "recipients",
		Short: "Memory and start with very many recipients whose notifications have ended",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case b.url != "":
				return startsAll("recipients")
			case s.Recipients < 1 || s.Publishers < 1 || s.Settle <= 0:
				return command.Usagef("--recipients, --publishers and --settle must be positive")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Recipients, "recipients", 1_000_000, "recipients, each with one notification that expires")
	f.IntVar(&s.Publishers, "publishers", 4, "connections that publish, to a thousand recipients at a time")
	f.DurationVar(&s.Settle, "settle", time.Minute, "from the last publish to the reading of the memory")
	return cmd
}
