package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) pushCommand() *cobra.Command {
	var p scenario.Push
	cmd := &cobra.Command{
		Use:   "push",
		Short: "The push service: messages that are on disk before their answer, and devices that do nothing",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case b.url != "":
				return startsAll("push")
			case p.Devices < 0 || p.Sessions < 0:
				return command.Usagef("--devices and --sessions must not be negative")
			case p.Publishers < 1 || p.Size < 1 || p.Size > 4096 || p.For <= 0 || p.Warmup < 0 || p.Settle <= 0:
				return command.Usagef("--size must be from 1 to 4096; --publishers, --for and --settle must be positive")
			}
			b.serverArgs = append(b.serverArgs, "--push-service", "--push-registrations", "0", "--max-pending", "100000")
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				p.Common = c
				return p.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.Devices, "devices", 200, "devices with a channel that are sent messages while they are away; 0: that is not measured")
	f.IntVar(&p.Publishers, "publishers", 64, "connections of senders, with one message under way each")
	f.IntVar(&p.Size, "size", 200, "bytes of an encrypted message")
	f.DurationVar(&p.Warmup, "warmup", 2*time.Second, "how long to send before the measurement")
	f.DurationVar(&p.For, "for", 5*time.Second, "how long to send")
	f.IntVar(&p.Sessions, "sessions", 10_000, "idle devices whose memory is measured; 0: that is not measured")
	f.DurationVar(&p.Settle, "settle", 30*time.Second, "how long the server may take to give back the memory of the opening")
	return cmd
}
