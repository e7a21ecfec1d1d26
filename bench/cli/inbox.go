package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) inboxCommand() *cobra.Command {
	var in scenario.Inbox
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "How soon a page and the counts of one inbox among a million come, their disk, and what a kept publish costs",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case b.url != "":
				return startsAll("inbox")
			case in.Recipients < 0 || in.Pairs < 0:
				return command.Usagef("--recipients and --pairs must not be negative")
			case in.Kept < 1 || in.Kept > inbox.MaxKept || in.Reads < 1 || in.Size < 1 || in.For <= 0:
				return command.Usagef("--kept must be from 1 to %d; --reads, --size and --for must be positive", inbox.MaxKept)
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				in.Common = c
				return in.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&in.Recipients, "recipients", 100_000, "inboxes in the store whose pages and counts are read; 0: that is not measured")
	f.IntVar(&in.Kept, "kept", 100, "items of each inbox")
	f.IntVar(&in.Size, "size", 200, "bytes of a content")
	f.IntVar(&in.Reads, "reads", 10_000, "how many first pages, and how many counts, to read")
	f.IntVar(&in.Pairs, "pairs", 5, "how often to publish without and with inbox; 0: that is not measured")
	f.Float64SliceVar(&in.Rates, "rates", []float64{1000, 10_000, 0}, "publishes a second, one after the other; 0: as fast as they are answered")
	f.DurationVar(&in.For, "for", 5*time.Second, "how long each publishes")
	return cmd
}
