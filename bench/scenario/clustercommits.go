package scenario

import (
	"context"
	"fmt"
	"slices"

	"godwit.dev/godwit/bench/report"
)

// Commits compares the costs of the same load to PostgreSQL on one server and on several nodes: publishes to different nodes share no commit.
// Clients and publishes are spread over all nodes. Each measurement has nodes and a database of its own.
type Commits struct {
	Load
	Nodes int
	Rates []float64 // notifications a second, one after the other
	Pairs int       // of measurements, for each rate
}

// Run measures all rates.
func (s *Commits) Run(ctx context.Context) (*report.Result, error) {
	settings := slices.DeleteFunc(s.settings(), func(of report.Setting) bool { return of.Name == "rate" })
	settings = append(settings, set("rates", s.Rates), set("nodes", fmt.Sprintf("1 and %d, in turn", s.Nodes)), set("pairs", s.Pairs))
	r := s.begin("cluster-commits", "cluster commits: what the same load costs PostgreSQL on one node and on several", settings...)
	for _, rate := range s.Rates {
		for pair := range s.Pairs {
			if err := s.pair(ctx, r, rate, pair); err != nil {
				return nil, fmt.Errorf("%s/s, pair %d: %w", report.Format(rate), pair+1, err)
			}
		}
	}
	return r, nil
}

// pair measures one node and several at one rate. Which goes first alternates.
func (s *Commits) pair(ctx context.Context, r *report.Result, rate float64, pair int) error {
	nodes := [2]int{1, s.Nodes}
	var found [2]*Outcome
	for turn := range 2 {
		way := (turn + pair) % 2
		l := s.Load
		l.Rate, l.Servers, l.Publishers, l.Cluster = rate, nodes[way], max(s.Publishers/nodes[way], 1), nodes[way] > 1
		o, err := l.measure(ctx, pair)
		if err != nil {
			return fmt.Errorf("%d nodes: %w", nodes[way], err)
		}
		found[way] = o
	}
	for way, o := range found {
		group := fmt.Sprintf("%s/s on %d nodes", report.Format(rate), nodes[way])
		if nodes[way] == 1 {
			group = report.Format(rate) + "/s on one node"
		}
		o.tell(r, group, pair)
		r.Add(group, "commits of mailboxes", "/s", o.Commits/o.Seconds)
	}
	one, more := found[0], found[1]
	group := fmt.Sprintf("%s/s: %d nodes to one", report.Format(rate), s.Nodes)
	if cpu := one.Postgres.CPU.Seconds(); cpu > 0 {
		r.Add(group, "PostgreSQL CPU", "×", more.Postgres.CPU.Seconds()/cpu)
	}
	r.Add(group, "commits of mailboxes", "×", more.Commits/one.Commits)
	r.Add(group, "publish to client p50, more", "ms", more.Latency.Summary().P50-one.Latency.Summary().P50)
	if one.Published.Latency != nil && more.Published.Latency != nil {
		r.Add(group, "publish answered p50, more", "ms", more.Published.Latency.Summary().P50-one.Published.Latency.Summary().P50)
	}
	return nil
}
