package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) objectsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "objects",
		Short: "Objects: latency of signals, clients that register, recovery of registrations",
		Args:  command.Group,
		RunE:  command.Help,
	}
	b.joinFlags(cmd.PersistentFlags())
	cmd.AddCommand(b.besideFlag(b.objectLatencyCommand()), b.besideFlag(b.objectScaleCommand()), b.besideFlag(b.objectRecoveryCommand()))
	return cmd
}

var lost = []string{scenario.LostAll, scenario.LostRegistrations, scenario.LostObjects}

// checkObjectTransport refuses transports that the load generator cannot register over.
func checkObjectTransport(name string) error {
	if !slices.Contains([]string{loadgen.WebSocketJSON, loadgen.WebSocketProto, loadgen.GRPC}, name) {
		return command.Usagef("--transport must be one of ws-json, ws-proto, grpc")
	}
	return nil
}

func (b *bench) objectLatencyCommand() *cobra.Command {
	var s scenario.ObjectLatency
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "New versions of one object to many clients, at several rates",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkObjectTransport(s.Transport); err != nil {
				return err
			}
			if len(s.Numbers) == 0 || slices.Min(s.Numbers) < 1 || s.Publishers < 1 || s.For <= 0 || s.AckAfter < 0 || len(s.Rates) == 0 || slices.Min(s.Rates) <= 0 {
				return command.Usagef("--publishers, --for and all of --clients and --rates must be positive, --ack-after not negative")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&s.Numbers, "clients", []int{1000}, "clients that are registered for the object; several numbers, one after the other")
	f.Float64SliceVar(&s.Rates, "rates", []float64{1, 5, 10, 15, 20, 25}, "puts a second, one after the other")
	f.IntVar(&s.Publishers, "publishers", 4, "connections that put")
	f.IntVar(&s.Size, "size", 34, "bytes of payload, which carries the time")
	f.StringVar(&s.Transport, "transport", loadgen.GRPC, "how clients connect: ws-json, ws-proto or grpc")
	f.DurationVar(&s.AckAfter, "ack-after", 20*time.Millisecond, "how long clients collect what they acknowledge; 0: each version at once")
	f.DurationVar(&s.Warmup, "warmup", time.Second, "how long to put before measuring")
	f.DurationVar(&s.For, "for", 10*time.Second, "how long to measure each rate")
	return cmd
}

// registeringFlags adds the flags of scenarios with registrations.
func registeringFlags(f *pflag.FlagSet, s *scenario.Registering) {
	f.IntVar(&s.Each, "registrations", 50, "registrations of each client")
	f.IntVar(&s.Pool, "objects", 1000, "objects that there are, from which each client takes others")
	f.StringVar(&s.Transport, "transport", loadgen.GRPC, "how clients connect: ws-json, ws-proto or grpc")
}

func checkRegistering(s *scenario.Registering) error {
	if err := checkObjectTransport(s.Transport); err != nil {
		return err
	}
	if s.Each < 1 || s.Each > 10_000 || s.Pool < 1 {
		return command.Usagef("--registrations must be from 1 to 10000, --objects at least 1")
	}
	return nil
}

func (b *bench) objectScaleCommand() *cobra.Command {
	var s scenario.ObjectScale
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Clients come and register, and are told of puts: latency, CPU time and memory by their number",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkRegistering(&s.Registering); err != nil {
				return err
			}
			if s.Clients < 1 || s.Steps < 1 || s.Over < 0 || s.Rate < 0 || s.Hold < 0 {
				return command.Usagef("--clients and --steps must be at least 1; --over, --rate and --hold must not be negative")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	registeringFlags(f, &s.Registering)
	f.IntVar(&s.Clients, "clients", 1000, "clients that come")
	f.DurationVar(&s.Over, "over", 48*time.Second, "how long their coming takes; 0: as fast as they are served")
	f.IntVar(&s.Steps, "steps", 10, "parts in which they come and are measured")
	f.Float64Var(&s.Rate, "rate", 1, "puts a second of one object, which all clients are registered for too; 0: none")
	f.DurationVar(&s.Hold, "hold", 5*time.Second, "how long their number stays the same after each part, to compare with while they come")
	return cmd
}

func (b *bench) objectRecoveryCommand() *cobra.Command {
	var s scenario.ObjectRecovery
	cmd := &cobra.Command{
		Use:   "recovery",
		Short: "The server is killed and loses all registrations: how long until all are back",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkRegistering(&s.Registering); err != nil {
				return err
			}
			if len(s.Clients) == 0 || slices.Min(s.Clients) < 1 {
				return command.Usagef("--clients must be at least 1 each")
			}
			if !slices.Contains(lost, s.Lost) {
				return command.Usagef("--lost must be one of %s", strings.Join(lost, ", "))
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	registeringFlags(f, &s.Registering)
	f.IntSliceVar(&s.Clients, "clients", []int{1000, 10_000}, "clients, one number after the other")
	f.StringVar(&s.Lost, "lost", scenario.LostAll, "what the server loses: all, registrations (as ColdNotify's registrar) or objects (as its matcher)")
	return cmd
}
