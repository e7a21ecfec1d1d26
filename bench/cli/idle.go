package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

var transports = []string{loadgen.WebSocketJSON, loadgen.WebSocketProto, loadgen.GRPC, loadgen.SSE, loadgen.MQTT, loadgen.QUIC}

// checkTransports checks the names of transports. Servers that are started for the measurement get a listener for MQTT if it is among them.
func (b *bench) checkTransports(flag string, names ...string) error {
	for _, n := range names {
		if n == loadgen.MQTT && b.url != "" {
			return command.Usagef("--%s mqtt is for servers that are started for the measurement", flag)
		}
		if n == loadgen.MQTT {
			b.serverArgs = append(b.serverArgs, "--mqtt-addr", "127.0.0.1:0")
		}
		if n == loadgen.QUIC {
			if b.url != "" || !b.tls {
				return command.Usagef("--%s: QUIC needs --tls, and is for servers that are started for the measurement", flag)
			}
			b.serveQUIC()
		}
		if !slices.Contains(transports, n) {
			return command.Usagef("--%s must be one of %s", flag, strings.Join(transports, ", "))
		}
	}
	return nil
}

// serveQUIC lets started servers serve QUIC, to as many connections and handshakes as the measurement opens.
func (b *bench) serveQUIC() {
	b.serverArgs = append(b.serverArgs, "--quic-addr", "127.0.0.1:0", "--quic-memory-mb", "16384")
}

func (b *bench) idleCommand() *cobra.Command {
	s := scenario.Idle{}
	cmd := &cobra.Command{
		Use:   "idle",
		Short: "Sessions that do nothing: memory and CPU time each",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkTransports("transports", s.Transports...); err != nil {
				return err
			}
			if len(s.Sessions) == 0 || slices.Min(s.Sessions) < 1 || s.Limit < 0 {
				return command.Usagef("--sessions must be at least 1 each, --limit must not be negative")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&s.Transports, "transports", []string{loadgen.WebSocketJSON, loadgen.GRPC}, "transports to measure, each on a server of its own")
	f.IntSliceVar(&s.Sessions, "sessions", []int{10_000}, "sessions to open; of several numbers, such as 1000,10000, each is measured on a server of its own")
	f.IntVar(&s.Limit, "limit", 0, "most bytes a session may cost: waits for memory to settle until then, and exits with 1 if it does not")
	f.DurationVar(&s.Settle, "settle", time.Minute, "how long the server may take to give back the memory of the opening")
	f.DurationVar(&s.Watch, "watch", 5*time.Second, "how long to watch the CPU time of idle sessions")
	return cmd
}

func (b *bench) acceptCommand() *cobra.Command {
	var a scenario.Accept
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "How fast sessions open",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkTransports("transport", a.Transport); err != nil {
				return err
			}
			if a.Clients < 1 || a.Concurrency < 1 {
				return command.Usagef("--clients and --concurrency must be at least 1")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				a.Common = c
				return a.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.Transport, "transport", loadgen.WebSocketJSON, "ws-json, ws-proto, grpc, sse or mqtt")
	f.IntVar(&a.Clients, "clients", 15_000, "sessions to open")
	f.IntVar(&a.Concurrency, "concurrency", 256, "connections being opened at a time by each worker")
	return cmd
}

func (b *bench) stormCommand() *cobra.Command {
	var s scenario.Storm
	cmd := &cobra.Command{
		Use:   "storm",
		Short: "All clients are cut and reconnect at once, with notifications waiting",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkTransports("transport", s.Transport); err != nil {
				return err
			}
			if s.Clients < 1 || s.Pending < 1 {
				return command.Usagef("--clients and --pending must be at least 1")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Transport, "transport", loadgen.WebSocketJSON, "ws-json, ws-proto, grpc, sse or mqtt")
	f.IntVar(&s.Clients, "clients", 15_000, "clients that reconnect")
	f.IntVar(&s.Pending, "pending", 2, "notifications that wait for each")
	f.IntVar(&s.Size, "size", 200, "bytes of data in each notification")
	f.DurationVar(&s.Settle, "settle", 30*time.Second, "how long memory may settle before it counts as steady")
	return cmd
}
