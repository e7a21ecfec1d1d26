package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) nammayatriCommand() *cobra.Command {
	var s scenario.Nammayatri
	cmd := &cobra.Command{
		Use:   "nammayatri",
		Short: "How soon entries of Redis streams reach clients of nammayatri's notification-service, and what that costs Redis",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkNammayatri(&s); err != nil {
				return err
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Clients, "clients", 1000, "clients that are online")
	f.IntVar(&s.Publishers, "publishers", 16, "publishers, each with one publish under way")
	f.Float64SliceVar(&s.Rates, "rates", []float64{1000, 4000}, "entries a second")
	f.IntVar(&s.Size, "size", 4096, "bytes of an entry's data")
	f.IntVar(&s.Shards, "shards", 128, "shards of the streams' keys")
	f.IntVar(&s.Masters, "masters", 3, "masters of the cluster beside the one Redis; 0: none is measured")
	f.DurationVar(&s.For, "for", time.Minute, "how long to publish at each rate")
	f.IntVar(&s.Idle, "idle", 10_000, "idle clients, for memory and for what a publish costs Redis beside them; 0: that is not measured")
	f.IntVar(&s.Pairs, "pairs", 5, "how often to compare the cost of a publish beside few and beside many idle clients")
	f.DurationVar(&s.CostFor, "cost-for", 10*time.Second, "how long to publish for each")
	f.Float64Var(&s.Poison, "poison", 100, "entries a second that cannot be read, beside which the others are measured; 0: that is not measured")
	f.DurationVar(&s.Settle, "settle", 30*time.Second, "how long the server may take to give back the memory of connecting")
	return cmd
}

func (b *bench) checkNammayatri(s *scenario.Nammayatri) error {
	switch {
	case b.url != "":
		return startsAll("nammayatri")
	case s.Clients < 1 || s.Publishers < 1 || s.Size < 1 || s.For <= 0 || s.CostFor <= 0 || s.Settle <= 0:
		return command.Usagef("--clients, --publishers, --size, --for, --cost-for and --settle must be positive")
	case s.Shards < 1 || s.Shards&(s.Shards-1) != 0:
		return command.Usagef("--shards must be a power of two")
	case s.Masters != 0 && s.Masters < 3 || s.Idle < 0 || s.Pairs < 0 || s.Poison < 0:
		return command.Usagef("--masters must be 0, or at least 3 as Redis demands; --idle, --pairs and --poison must not be negative")
	case len(s.Rates) == 0:
		return command.Usagef("--rates must name a rate")
	}
	for _, rate := range s.Rates {
		if rate <= 0 {
			return command.Usagef("--rates must be positive")
		}
	}
	return nil
}
