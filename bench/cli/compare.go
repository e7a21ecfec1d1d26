package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) matrixCommand() *cobra.Command {
	var m scenario.Matrix
	var open scenario.OpenConnections
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "Notifications one after the other, each acknowledged before the next; Mosquitto beside it",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, list := range [][]int{m.Counts, m.Sizes, m.Clients, {m.Samples}} {
				for _, n := range list {
					if n < 1 {
						return command.Usagef("--notifications, --sizes, --clients and --samples must be at least 1")
					}
				}
			}
			if m.Within <= 0 || open.Active < 1 || open.Every <= 0 || open.For <= 0 {
				return command.Usagef("--within, --active, --every and --for must be positive")
			}
			if m.QUIC {
				if err := b.checkTransports("quic", loadgen.QUIC); err != nil {
					return err
				}
			}
			if len(open.Rows) > 0 {
				open.Size, open.Rivals = m.Sizes[0], m.Rivals
				return b.measureOpen(cmd, &open)
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				m.Common, m.Runs = c, 0
				return m.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&m.Counts, "notifications", []int{1, 10, 100, 1000}, "how many each client gets")
	f.IntSliceVar(&m.Sizes, "sizes", []int{1536, 4096}, "bytes of data in each")
	f.IntSliceVar(&m.Clients, "clients", []int{1, 100}, "how many clients")
	f.IntVar(&m.Samples, "samples", 10, "how often each is measured at most; --runs has no meaning here")
	f.DurationVar(&m.Within, "within", 4*time.Minute, "how long all of it may take: what would take longer is measured less often, but once")
	f.BoolVar(&m.Rivals, "rivals", true, "measure Mosquitto at QoS 1 in the same run, if it is installed")
	f.BoolVar(&m.QUIC, "quic", false, "measure sessions over QUIC too, beside the others over TLS")
	f.IntSliceVar(&open.Rows, "open", nil, "numbers of open connections, such as 1000,10000,100000: instead, few of so many are active, with notifications of the first of --sizes, over WebSocket, gRPC, SSE and MQTT")
	f.IntVar(&open.Active, "active", 100, "with --open: how many of the connections get notifications")
	f.DurationVar(&open.Every, "every", 2*time.Second, "with --open: how often each of these gets one")
	f.DurationVar(&open.For, "for", 20*time.Second, "with --open: how long each is measured")
	return cmd
}

// measureOpen measures rows of open connections, once each.
func (b *bench) measureOpen(cmd *cobra.Command, s *scenario.OpenConnections) error {
	if b.url != "" {
		return command.Usagef("matrix --open starts as many servers as it needs: leave out --url")
	}
	if slices.Min(s.Rows) < s.Active {
		return command.Usagef("--open must be at least --active: %d", s.Active)
	}
	return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
		s.Common, s.Runs = c, 0
		return s.Run(ctx)
	})
}

func (b *bench) compareCommand() *cobra.Command {
	var s scenario.Compare
	var runs int
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "The same load on Godwit, Mosquitto and nats-server, as far as they are installed",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.runs = runs
			if b.url != "" {
				return startsAll("compare")
			}
			if s.Sessions < 1 || s.Fan < 1 || s.For <= 0 {
				return command.Usagef("--sessions, --fan and --for must be positive")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&runs, "runs", 1, "how often to measure; each takes four minutes")
	f.DurationVar(&s.For, "for", 3*time.Second, "how long each load is measured")
	f.IntVar(&s.Sessions, "sessions", 5000, "idle connections")
	f.IntVar(&s.Fan, "fan", 2000, "subscribers of the fan-out")
	return cmd
}

func (b *bench) mqttCommand() *cobra.Command {
	var m scenario.MQTT
	cmd := &cobra.Command{
		Use:   "mqtt",
		Short: "MQTT: unicast at QoS 1, fan-out at QoS 0, connects and idle connections; Mosquitto beside it",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, n := range []int{m.Clients, m.Publishers, m.Size, m.Fan, m.Connects, m.Concurrency, m.Sessions} {
				if n < 1 {
					return command.Usagef("--clients, --publishers, --size, --fan, --connects, --concurrency and --sessions must be at least 1")
				}
			}
			if m.Rate < 0 || m.Warmup < 0 || m.For <= 0 || m.Settle <= 0 {
				return command.Usagef("--rate and --warmup must not be negative, --for and --settle must be positive")
			}
			if err := b.checkTransports("url", loadgen.MQTT); err != nil {
				return err
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				m.Common = c
				return m.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&m.Clients, "clients", 1000, "subscribers of unicast, one connection and recipient each")
	f.IntVar(&m.Publishers, "publishers", 64, "connections that publish at QoS 1, one message at a time on each")
	f.IntVar(&m.Size, "size", 200, "bytes of data in each message")
	f.Float64Var(&m.Rate, "rate", 0, "messages a second of unicast (default: as fast as they are answered)")
	f.IntVar(&m.Fan, "fan", 2000, "subscribers of fan-out")
	f.IntVar(&m.Connects, "connects", 10_000, "connections to open, each with a subscription")
	f.IntVar(&m.Concurrency, "concurrency", 256, "connections being opened at a time by each worker")
	f.IntVar(&m.Sessions, "sessions", 10_000, "idle connections")
	f.DurationVar(&m.Warmup, "warmup", 2*time.Second, "how long to publish before measuring")
	f.DurationVar(&m.For, "for", 10*time.Second, "how long unicast and fan-out are measured")
	f.DurationVar(&m.Settle, "settle", 20*time.Second, "how long memory may settle, before the idle connections are opened and with them")
	f.BoolVar(&m.Rivals, "rivals", true, "measure Mosquitto in the same run, if it is installed")
	return cmd
}
