package scenario

import (
	"context"
	"fmt"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
)

// Route measures how much later a notification arrives from another node than from the recipient's own. Both ways are measured on
// the same two nodes in turn.
type Route struct {
	Load
	Pairs int
}

// Run measures all pairs.
func (s *Route) Run(ctx context.Context) (*report.Result, error) {
	const same, other = "on one node", "from another node"
	s.Cluster, s.Servers = true, 2
	r := s.begin("cluster-route", "cluster route: from one node to a client of another", append(s.settings(), set("pairs", s.Pairs))...)
	site, err := s.newSite(ctx)
	if err != nil {
		return nil, err
	}
	defer site.Close()
	for pair := range max(s.Pairs, 1) {
		found := map[string]*Outcome{}
		for turn := range 2 {
			way, load := same, s.Load
			load.From, load.At = []int{0}, []int{0}
			if (turn+pair)%2 == 1 { // which goes first alternates
				way, load.At = other, []int{1}
			}
			o, err := load.window(ctx, site, pair)
			if err != nil {
				return nil, fmt.Errorf("pair %d, %s: %w", pair+1, way, err)
			}
			found[way] = o
		}
		for _, way := range []string{same, other} {
			found[way].tell(r, way, pair)
		}
		here, there := found[same].Latency.Summary(), found[other].Latency.Summary()
		r.Add("", "p50 from another node less p50 on one", "ms", there.P50-here.P50)
		r.Add("", "p99 from another node less p99 on one", "ms", there.P99-here.P99)
	}
	return r, nil
}

// window measures a load on a site that others are measured on too, with clients of its own.
func (l *Load) window(ctx context.Context, site *testbed.Site, run int) (*Outcome, error) {
	defer site.StopWorkers()
	return l.measureOn(ctx, site, run)
}

// Nodes measures what two nodes publish to the same recipients to what one does. Clients are connected to both, either way.
type Nodes struct {
	Load
	Pairs int
}

// Run measures all pairs.
func (s *Nodes) Run(ctx context.Context) (*report.Result, error) {
	const one, two = "all at one node", "half at each of two"
	s.Cluster, s.Servers = true, 2
	r := s.begin("cluster-nodes", "cluster nodes: publishing to the same recipients at one node, and at two", append(s.settings(), set("pairs", s.Pairs))...)
	site, err := s.newSite(ctx)
	if err != nil {
		return nil, err
	}
	defer site.Close()
	for pair := range max(s.Pairs, 1) {
		found := map[string]*Outcome{}
		for turn := range 2 {
			way, load := one, s.Load
			load.From = []int{pair % 2}
			if (turn+pair)%2 == 1 { // which goes first alternates
				way, load.From, load.Publishers = two, nil, max(s.Publishers/2, 1)
			}
			o, err := load.window(ctx, site, pair)
			if err != nil {
				return nil, fmt.Errorf("pair %d, %s: %w", pair+1, way, err)
			}
			found[way] = o
		}
		for _, way := range []string{one, two} {
			found[way].tell(r, way, pair)
		}
		r.Add("", "two nodes' rate to one's", "×", rate(found[two])/rate(found[one]))
	}
	return r, nil
}

// rate is how many copies were accepted a second.
func rate(o *Outcome) float64 { return float64(o.Published.Accepted) / o.Published.Seconds }
