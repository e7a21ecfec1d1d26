package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) escalationCommand() *cobra.Command {
	var e scenario.Escalation
	cmd := &cobra.Command{
		Use:   "escalation",
		Short: "How soon a push leaves for who is away or silent, also beside a campaign, and what steps cost",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case b.url != "":
				return startsAll("escalation")
			case e.Each < 0 || e.After <= 0 || e.Campaign < 0 || e.Cap < 1 || e.Rate <= 0 || e.Find < 0 || e.Beside <= 0:
				return command.Usagef("--each, --campaign and --find must not be negative; --after, --cap, --rate and --beside must be positive")
			case e.Pairs < 0 || e.For <= 0 || e.Armed < 0 || e.Sends < 0:
				return command.Usagef("--pairs, --armed and --sends must not be negative; --for must be positive")
			}
			return b.measure(cmd, func(ctx context.Context, c scenario.Common) (*report.Result, error) {
				e.Common = c
				return e.Run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&e.Each, "each", 100, "notifications to recipients who are away, and to such as are online and silent; 0: that is not measured")
	f.DurationVar(&e.After, "after", time.Second, "when the push to those who are silent is due")
	f.IntVar(&e.Campaign, "campaign", 100_000, "phones of the campaign beside which escalations are sent; 0: that is not measured")
	f.IntVar(&e.Cap, "cap", 200, "messages a second that FCM lets through")
	f.Float64Var(&e.Rate, "rate", 10, "escalations a second beside the campaign")
	f.DurationVar(&e.Find, "find", 20*time.Second, "for how long the campaign is sent alone, until its rate fits")
	f.DurationVar(&e.Beside, "beside", 2*time.Minute, "for how long escalations are sent beside it")
	f.IntVar(&e.Pairs, "pairs", 5, "how often to publish without and with a step, and to start with steps that wait; 0: that is not measured")
	f.DurationVar(&e.For, "for", 5*time.Second, "how long each publishes")
	f.IntVar(&e.Armed, "armed", 100_000, "steps that wait at a start; 0: that is not measured")
	f.DurationVar(&e.Sends, "sends", 3*time.Second, "how long the sender of FCM is measured by itself; 0: it is not")
	return cmd
}

// phonesCommand returns the command that runs the test FCM as a process of its own.
func (b *bench) phonesCommand() *cobra.Command {
	var p scenario.Phones
	cmd := &cobra.Command{
		Use:    "phones",
		Short:  "Be an FCM with phones for another bench process",
		Hidden: true,
		Args:   command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return scenario.ServePhones(cmd.Context(), b.stdin, b.stdout, p)
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.Devices, "devices", 1, "phones")
	f.IntVar(&p.Cap, "cap", 0, "messages in any second that are taken")
	f.BoolVar(&p.Quiet, "quiet", false, "say nothing of messages")
	return cmd
}
