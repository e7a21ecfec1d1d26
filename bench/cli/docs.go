package cli

import (
	"context"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) docsCommand() *cobra.Command {
	var d scenario.Docs
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "How long each page of the documentation inside the server takes, and a search of it",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.url != "" {
				return startsAll("docs")
			}
			if d.Searches < 1 {
				return command.Usagef("--searches must be at least 1")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				d.Common = c
				return d.Run(ctx)
			})
		},
	}
	cmd.Flags().IntVar(&d.Searches, "searches", 100, "how many searches to make")
	return cmd
}
