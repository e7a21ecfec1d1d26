package cli

import (
	"context"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) consoleCommand() *cobra.Command {
	var d scenario.Console
	cmd := &cobra.Command{
		Use:   "console",
		Short: "How long each page of the web console takes in an app with a million recipients",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.url != "" {
				return startsAll("console")
			}
			if d.Recipients < 1 || d.Times < 1 {
				return command.Usagef("--recipients and --times must be at least 1")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				d.Common = c
				return d.Run(ctx)
			})
		},
	}
	cmd.Flags().IntVar(&d.Recipients, "recipients", 1_000_000, "how many recipients the app has, each with an endpoint and a notification")
	cmd.Flags().IntVar(&d.Times, "times", 5, "how often each page is read")
	return cmd
}
