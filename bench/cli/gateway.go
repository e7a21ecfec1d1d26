package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) gatewayCommand() *cobra.Command {
	var g scenario.Gateway
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "One HTTP handler called directly, behind Go's reverse proxy, and behind the gateway",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.url != "" {
				return startsAll("gateway")
			}
			if g.Conns < 1 || g.For <= 0 || g.Works < 0 {
				return command.Usagef("--connections and --for must be positive")
			}
			if err := b.unconfined(); err != nil { // limits would not apply to the handler and the proxy
				return err
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				g.Common = c
				return g.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.DurationVar(&g.For, "for", 5*time.Second, "how long each way is measured")
	f.IntVar(&g.Conns, "connections", 64, "how many call at once")
	f.DurationVar(&g.Works, "works", 20*time.Millisecond, "how long the handler takes where it takes its time; 0: that is not measured")
	return cmd
}

// gatewayPartCommand returns the command that runs one part of the gateway's measurement as a process of its own.
func (b *bench) gatewayPartCommand() *cobra.Command {
	var target string
	var works time.Duration
	cmd := &cobra.Command{
		Use:    "gateway-part NAME",
		Hidden: true,
		Args:   command.Exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return scenario.ServePart(cmd.Context(), b.stdout, args[0], target, works)
		},
	}
	cmd.Flags().StringVar(&target, "target", "", "what it stands before, or serves")
	cmd.Flags().DurationVar(&works, "works", 0, "how long the handler takes")
	return cmd
}
