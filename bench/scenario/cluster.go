package scenario

import (
	"context"
	"fmt"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
)

// Route measures how much longer a notification takes when it is published on another node than the recipient's own. Both ways are measured
// on the same two nodes in turn.
type Route struct {
	Load
	Pairs int
}

// Run measures all pairs.
func (s *Route) Run(ctx context.Context) (*report.Result, error) {
	const same, other = "on one node", "from another node"
	s.Cluster, s.Servers = true, 2
	r := s.begin("cluster-route", "cluster route: from one node to a client of another", append(s.settings(), set("pairs", s.Pairs))...)
	ways := [2]string{same, other}
	load := func(_, way int) Load {
		l := s.Load
		l.From, l.At = []int{0}, []int{way}
		return l
	}
	err := s.inPairs(ctx, r, s.Pairs, ways, load, func(found [2]*Outcome) {
		here, there := found[0].Latency.Summary(), found[1].Latency.Summary()
		r.Add("", "p50 from another node less p50 on one", "ms", there.P50-here.P50)
		r.Add("", "p99 from another node less p99 on one", "ms", there.P99-here.P99)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// inPairs measures two ways in turn on the same nodes, pairs times.
func (l *Load) inPairs(ctx context.Context, r *report.Result, pairs int, ways [2]string, load func(pair, way int) Load, compare func([2]*Outcome)) error {
	site, err := l.newSite(ctx)
	if err != nil {
		return err
	}
	defer site.Close()
	for pair := range max(pairs, 1) {
		var found [2]*Outcome
		for turn := range 2 {
			way := (turn + pair) % 2 // which goes first alternates
			of := load(pair, way)
			if found[way], err = of.window(ctx, site, pair); err != nil {
				return fmt.Errorf("pair %d, %s: %w", pair+1, ways[way], err)
			}
		}
		for way, o := range found {
			o.tell(r, ways[way], pair)
		}
		compare(found)
	}
	return nil
}

// window measures a load, with clients of its own, on a site that other measurements use, too.
func (l *Load) window(ctx context.Context, site *testbed.Site, run int) (*Outcome, error) {
	defer site.StopWorkers()
	return l.measureOn(ctx, site, run)
}

// Nodes compares the publish rate of two nodes with that of one, for the same recipients. In both cases, clients are connected to both
// nodes.
type Nodes struct {
	Load
	Pairs int
}

// Run measures all pairs.
func (s *Nodes) Run(ctx context.Context) (*report.Result, error) {
	const one, two = "all at one node", "half at each of two"
	s.Cluster, s.Servers = true, 2
	r := s.begin("cluster-nodes", "cluster nodes: publishing to the same recipients at one node, and at two", append(s.settings(), set("pairs", s.Pairs))...)
	ways := [2]string{one, two}
	load := func(pair, way int) Load {
		l := s.Load
		if l.From = []int{pair % 2}; way == 1 {
			l.From, l.Publishers = nil, max(s.Publishers/2, 1)
		}
		return l
	}
	err := s.inPairs(ctx, r, s.Pairs, ways, load, func(found [2]*Outcome) {
		r.Add("", "two nodes' rate to one's", "×", rate(found[1])/rate(found[0]))
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// rate returns the number of accepted copies per second.
func rate(o *Outcome) float64 { return float64(o.Published.Accepted) / o.Published.Seconds }
