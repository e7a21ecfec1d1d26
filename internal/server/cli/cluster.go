package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
)

func (p *program) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes: which live, which are missing and why, their versions, sessions and clocks, and who leads what",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.client()
			if err != nil {
				return err
			}
			defer c.Close()
			v, err := c.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			if p.json {
				return p.line(v)
			}
			return p.showCluster(&v)
		},
	}
	cmd.AddCommand(p.clusterForgetCommand())
	return cmd
}

func (p *program) clusterForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget NODE",
		Short: "Take a node off the list that was lost for good",
		Long: `Take a node off the list that was lost for good: killed, or with its machine. Until then it is listed as missing, and the alert for it
goes on. A node that is stopped in order, or started again, needs no forgetting.`,
		Args: exactly("node"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.client()
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.ForgetNode(cmd.Context(), args[0]); err != nil {
				return err
			}
			if p.json {
				return p.line(map[string]string{"forgotten": args[0]})
			}
			_, err = fmt.Fprintf(p.stdout, "Node %s is forgotten.\n", args[0])
			return err
		},
	}
}

func (p *program) showCluster(v *godwit.Cluster) error {
	rows := [][]string{}
	for _, n := range v.Nodes {
		link := ""
		for _, r := range v.Routes {
			if n.Boot != "" && r.Boot == n.Boot {
				link = fmt.Sprintf("%s, %d bytes wait", r.Address, r.PendingBytes)
			}
		}
		rows = append(rows, []string{
			n.Name, n.State, n.Version, strconv.Itoa(n.Sessions), (time.Duration(n.UptimeS) * time.Second).String(),
			strconv.FormatInt(n.ClockOffsetMS, 10) + "ms", heard(n.HeardAgoMS), link,
		})
	}
	if err := p.table([]string{"NODE", "STATE", "VERSION", "SESSIONS", "UP", "CLOCK", "HEARD", "ROUTE"}, rows); err != nil {
		return err
	}
	for _, n := range v.Nodes {
		if n.Why == "" {
			continue
		}
		if _, err := fmt.Fprintf(p.stdout, "\nNode %s is missing: %s.\n", n.Name, n.Why); err != nil {
			return err
		}
	}
	if err := p.showStore(v); err != nil {
		return err
	}
	if len(v.Leases) == 0 {
		return nil
	}
	rows = rows[:0]
	for _, l := range v.Leases {
		rows = append(rows, []string{l.Name, l.Holder, l.Until.Local().Format(time.TimeOnly)})
	}
	if _, err := fmt.Fprintln(p.stdout); err != nil {
		return err
	}
	return p.table([]string{"LEASE", "HOLDER", "UNTIL"}, rows)
}

// showStore shows how much of the work each node owns and does, if that is known, and what keeps the database from removing dead rows.
func (p *program) showStore(v *godwit.Cluster) error {
	owns := map[string]int{}
	for _, l := range v.Leases {
		if !strings.HasPrefix(l.Name, "node/") { // the lease on its own name
			owns[l.Holder]++
		}
	}
	rows := [][]string{}
	for _, n := range v.Nodes {
		if n.CommitsPerS != nil || n.StoreAnsweredMS != nil {
			rows = append(rows, []string{
				n.Name, strconv.Itoa(owns[n.Name]), late(n.LagMS), cmp.Or(n.Backup, "-"), figure(n.CommitsPerS, "%.1f"), figure(n.CopiesPerCommit, "%.1f"), figure(n.StoreQueue, "%d"), figure(n.StoreAnsweredMS, "%d ms ago"),
			})
		}
	}
	if len(rows) > 0 {
		if _, err := fmt.Fprintln(p.stdout); err != nil {
			return err
		}
		if err := p.table([]string{"NODE", "OWNS", "LAG", "BACKUP", "COMMITS/S", "COPIES EACH", "QUEUE", "DATABASE ANSWERED"}, rows); err != nil {
			return err
		}
	}
	if d := v.Database; d != nil && d.HeldBy != "" {
		_, err := fmt.Fprintf(p.stdout, "\nThe oldest snapshot: %s.\n", d.HeldBy)
		return err
	}
	return nil
}

// figure formats a number that may not be known.
func figure[N int | int64 | float64](n *N, format string) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf(format, *n)
}

// late formats how late a node is, if that is known.
func late(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return (time.Duration(*ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}

func heard(agoMS int64) string {
	if agoMS == 0 {
		return "-"
	}
	return (time.Duration(agoMS) * time.Millisecond).Round(100*time.Millisecond).String() + " ago"
}
