package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

// mostThreads is the most threads of a server that is profiled: more say nothing about machines that exist.
const mostThreads = 256

func (b *bench) serialCommand() *cobra.Command {
	var s scenario.Serial
	cmd := &cobra.Command{
		Use:   "serial LOAD",
		Short: "Where the CPU time of a load goes, what one goroutine does alone, and the rate that more cores allow",
		Long: `Profile a server under a load: ` + strings.Join(scenario.SerialLoads(), ", ") + `. The result has the CPU time of a delivery (or session,
signal, push, request) by stage, the share of each goroutine and lock that only one works in at a time, and the rate that these allow with 2, 4,
8 and 16 cores. The server divides its work as it would with --threads cores, so two cores are enough to find what does not get faster with more.`,
		Args:      command.Exactly("load"),
		ValidArgs: scenario.SerialLoads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Of = args[0]
			if !slices.Contains(scenario.SerialLoads(), s.Of) {
				return command.Usagef("%q is none of %s", s.Of, strings.Join(scenario.SerialLoads(), ", "))
			}
			if s.Threads < 1 || s.Threads > mostThreads || s.For <= 0 || s.Clients < 0 || s.Publishers < 0 {
				return command.Usagef("--threads must be from 1 to %d, --for positive, --clients and --publishers not negative", mostThreads)
			}
			if b.url != "" {
				return startsAll("serial")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				s.Common = c
				return s.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Threads, "threads", 16, "GOMAXPROCS of the server: it starts as many goroutines as on a machine with so many cores")
	f.DurationVar(&s.For, "for", 10*time.Second, "how long to measure loads that publish or call; others end by themselves")
	f.IntVar(&s.Clients, "clients", 0, "subscribers, phones or callers (default: 1000, of fanout 3000, topics 2000, storm 15000, campaign 20000, gateway 64)")
	f.IntVar(&s.Publishers, "publishers", 0, "connections that publish (default: 1024, of fanout and objects 8, of topics 2)")
	return cmd
}
