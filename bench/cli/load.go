package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

// loadFlags adds the flags of scenarios with subscribers and publishers.
func loadFlags(f *pflag.FlagSet, l *scenario.Load) {
	f.IntVar(&l.Clients, "clients", 1000, "subscribers, one connection and recipient each")
	f.IntVar(&l.Publishers, "publishers", 64, "connections that publish, one request at a time on each")
	f.IntVar(&l.Size, "size", 200, "bytes of data in each notification")
	f.StringVar(&l.Transport, "transport", loadgen.WebSocketJSON, "how subscribers connect: ws-json, ws-proto, grpc, sse or mqtt")
	f.StringVar(&l.Via, "publish", "", "how to publish: http, grpc or batch (default: grpc for gRPC subscribers, else http)")
	f.IntVar(&l.Batch, "batch", 100, "notifications in each request of --publish batch")
	f.IntVar(&l.Prefill, "prefill", 0, "notifications to store, deliver and settle beforehand, so that the store is not empty")
	f.BoolVar(&l.AckNone, "ack-none", false, "publish with ack none: settled by the first write, not by an acknowledgement")
	f.IntVar(&l.Window, "window", 0, "unacknowledged notifications in flight to each subscriber (default: the server's)")
	f.DurationVar(&l.Warmup, "warmup", 2*time.Second, "how long to publish before measuring")
	f.DurationVar(&l.For, "for", 10*time.Second, "how long to measure")
}

func (b *bench) checkLoad(l *scenario.Load) error {
	if err := b.checkTransports("transport", l.Transport); err != nil {
		return err
	}
	switch l.Via {
	case "", loadgen.ViaHTTP, loadgen.ViaGRPC, loadgen.ViaBatch:
	default:
		return command.Usagef("--publish must be one of http, grpc, batch")
	}
	if l.Clients < 1 || l.Publishers < 1 || l.Size < 1 || l.Batch < 1 || l.Batch > 10_000 {
		return command.Usagef("--clients, --publishers, --size and --batch must be at least 1, --batch at most 10000")
	}
	if l.AckAfter < 0 {
		return command.Usagef("--ack-after must not be negative")
	}
	if l.Rate < 0 || l.For <= 0 || l.Prefill < 0 {
		return command.Usagef("--rate and --prefill must not be negative, --for must be positive")
	}
	return nil
}

// besideQUICRate is below what a small machine can do, since the waits of an overloaded one say nothing.
const besideQUICRate = 1000

func (b *bench) unicastCommand() *cobra.Command {
	var l scenario.Load
	var stubs int
	var beside scenario.UnicastQUIC
	var quic bool
	cmd := &cobra.Command{
		Use:   "unicast",
		Short: "One recipient a publish: throughput and latency",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkLoad(&l); err != nil {
				return err
			}
			if stubs < 0 || stubs > 0 && b.url != "" {
				return command.Usagef("--stubs must not be negative, and needs a server that is started for it")
			}
			if l.Steps < 0 || l.Steps > 7 || l.Steps > 0 && (l.Via == loadgen.ViaGRPC || l.Via == "" && l.Transport == loadgen.GRPC) {
				return command.Usagef("--steps must be from 0 to 7, and goes with --publish http or batch")
			}
			if stubs > 0 && b.postgres != "" {
				return command.Usagef("--stubs are written into SQLite's files: leave out --postgres")
			}
			if quic {
				if b.url != "" || beside.Stalled < 1 || beside.Flood <= 0 {
					return command.Usagef("--quic needs servers that are started for it, and --stalled and --flood above 0")
				}
				b.tls = true
				if !cmd.Flags().Changed("rate") {
					l.Rate = besideQUICRate
				}
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				c.Testbed.Server.Stubs = stubs
				l.Common = c
				if quic {
					beside.Load = l
					return beside.Run(ctx)
				}
				return l.Unicast(ctx)
			})
		},
	}
	loadFlags(cmd.Flags(), &l)
	cmd.Flags().Float64Var(&l.Rate, "rate", 0, "notifications a second (default: as fast as they are answered)")
	cmd.Flags().BoolVar(&quic, "quic", false, "measure three times in turn, with TLS: without QUIC, with QUIC that nobody uses, and with a flood of handshakes and QUIC clients that do not read; 1,000 notifications a second unless --rate says otherwise")
	cmd.Flags().Float64Var(&beside.Flood, "flood", 2000, "with --quic: packets a second of the flood")
	cmd.Flags().IntVar(&beside.Stalled, "stalled", 50, "with --quic: clients over QUIC that do not read")
	cmd.Flags().DurationVar(&l.AckAfter, "ack-after", 0, "how long clients collect what they acknowledge, as the client libraries do for 5ms (default: each at once)")
	cmd.Flags().IntVar(&l.Steps, "steps", 0, "steps beyond live of each notification's escalation, none of which comes due; published over http or batch")
	cmd.Flags().IntVar(&stubs, "stubs", 0, "settled notifications that the store holds from the start: eight days of them, with seven kept")
	return cmd
}

func (b *bench) fanoutCommand() *cobra.Command {
	var l scenario.Load
	cmd := &cobra.Command{
		Use:   "fanout",
		Short: "Each message to all recipients: CPU time a delivery",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkLoad(&l); err != nil {
				return err
			}
			if l.Via == loadgen.ViaBatch {
				return command.Usagef("fanout publishes over http or grpc")
			}
			if l.Objects {
				if err := checkObjectTransport(l.Transport); err != nil {
					return err
				}
				if l.Via == loadgen.ViaGRPC || l.Prefill > 0 {
					return command.Usagef("objects are put over http, and nothing of them is stored beforehand")
				}
				l.Via = loadgen.ViaHTTP
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				l.Common = c
				return l.Fanout(ctx)
			})
		},
	}
	loadFlags(cmd.Flags(), &l)
	f := cmd.Flags()
	f.BoolVar(&l.Objects, "objects", false, "each message is a new version of one object, which all clients are registered for")
	f.DurationVar(&l.AckAfter, "ack-after", 0, "how long clients collect what they acknowledge, as the client libraries do for 5ms (default: each at once)")
	f.Float64Var(&l.Rate, "rate", 10, "messages a second, each to all clients; 0: as fast as they are answered")
	defaults(f, map[string]string{"clients": "5000", "publishers": "8"})
	return cmd
}

func (b *bench) topicsCommand() *cobra.Command {
	var l scenario.Load
	cmd := &cobra.Command{
		Use:   "topics",
		Short: "Each message to all who subscribe to a topic, at most once: CPU time a delivery",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkLoad(&l); err != nil {
				return err
			}
			if l.Transport != loadgen.WebSocketJSON || l.Via != "" && l.Via != loadgen.ViaHTTP || l.Prefill > 0 {
				return command.Usagef("topics are published over http to clients of --transport ws-json, and nothing is stored beforehand")
			}
			l.Via = loadgen.ViaHTTP
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				l.Common = c
				return l.Topics(ctx)
			})
		},
	}
	loadFlags(cmd.Flags(), &l)
	cmd.Flags().Float64Var(&l.Rate, "rate", 0, "messages a second, each to all clients (default: as fast as they are answered)")
	defaults(cmd.Flags(), map[string]string{"clients": "2000", "publishers": "2", "size": "200"})
	return cmd
}

func (b *bench) topicsSlowCommand() *cobra.Command {
	var s scenario.TopicsSlow
	cmd := &cobra.Command{
		Use:   "topics-slow",
		Short: "Topics as fast as they go to subscribers that do not read: what the mailbox feels",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkLoad(&s.Load); err != nil {
				return err
			}
			if b.url != "" {
				return command.Usagef("topics-slow needs two servers that are started for it")
			}
			if s.Slow < 1 || s.Storm < 1 || s.Pairs < 1 {
				return command.Usagef("--slow, --storm and --pairs must be at least 1")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	loadFlags(f, &s.Load)
	f.Float64Var(&s.Rate, "rate", 300, "notifications a second")
	f.IntVar(&s.Slow, "slow", 2, "subscribers of the topic, which never read")
	f.IntVar(&s.Storm, "storm", 2, "connections that publish to the topic, one request at a time on each")
	f.IntVar(&s.Pairs, "pairs", 5, "pairs of measurements, the storm on the same server and on a second; --runs has no meaning here")
	defaults(f, map[string]string{"clients": "100", "publishers": "16"})
	return cmd
}

func (b *bench) slowCommand() *cobra.Command {
	var s scenario.Slow
	cmd := &cobra.Command{
		Use:   "slow",
		Short: "Some clients never read: what the others feel",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkLoad(&s.Load); err != nil {
				return err
			}
			if s.Every < 2 || s.Pairs < 1 {
				return command.Usagef("--every must be at least 2 and --pairs at least 1")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	loadFlags(f, &s.Load)
	f.Float64Var(&s.Rate, "rate", 2000, "notifications a second")
	f.IntVar(&s.Every, "every", 100, "one client in so many never reads")
	f.IntVar(&s.Pairs, "pairs", 5, "pairs of measurements, without and with such clients; --runs has no meaning here")
	defaults(f, map[string]string{"size": "4096"})
	return cmd
}

func (b *bench) slaCommand() *cobra.Command {
	var l scenario.Load
	cmd := &cobra.Command{
		Use:   "sla",
		Short: "100,000 connections on several servers, 1,000 publishes/s of 4 KB",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.checkLoad(&l); err != nil {
				return err
			}
			if l.Servers < 1 {
				return command.Usagef("--servers must be at least 1")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				l.Common = c
				return l.SLA(ctx)
			})
		},
	}
	f := cmd.Flags()
	loadFlags(f, &l)
	f.Float64Var(&l.Rate, "rate", 1000, "notifications a second, over all servers")
	f.IntVar(&l.Servers, "servers", 6, "independent servers; each connection is a file, and systems commonly allow 20,000 a process")
	defaults(f, map[string]string{"clients": "100000", "size": "4096", "publishers": "16", "for": "30s", "warmup": "5s"})
	return cmd
}

// defaults changes the default values of shared flags for one scenario.
func defaults(f *pflag.FlagSet, values map[string]string) {
	for name, value := range values {
		if err := f.Set(name, value); err != nil {
			panic("cli: default of --" + name + ": " + err.Error()) // a programming error, which every test of the command finds
		}
		f.Lookup(name).DefValue = value
		f.Lookup(name).Changed = false
	}
}
