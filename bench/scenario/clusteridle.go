package scenario

import (
	"context"
	"fmt"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

// ClusterIdle measures what idle sessions cost more in a cluster than on a single server: on their own node, on each other node, and in
// PostgreSQL, by which the nodes compare their sessions every 30 seconds.
type ClusterIdle struct {
	Common
	Transport string
	Sessions  int
	Nodes     int
	Settle    time.Duration // how long memory may settle before each reading, without and with the sessions
	Watch     time.Duration // how long PostgreSQL is observed with the sessions; half as long without them
}

// Run measures a single server and a cluster.
func (s *ClusterIdle) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("cluster-idle", "cluster idle: what sessions that do nothing cost the nodes of a cluster and PostgreSQL",
		set("sessions on one node", s.Sessions), set("nodes", s.Nodes), set("transport", s.Transport))
	return r, s.runs(ctx, func(ctx context.Context, n int) error {
		alone, err := s.single(ctx)
		if err != nil {
			return fmt.Errorf("a single server: %w", err)
		}
		r.Add("", "memory a session on a single server", "B", alone)
		return s.cluster(ctx, r, alone)
	})
}

// single measures the memory per session on a server without a cluster.
func (s *ClusterIdle) single(ctx context.Context) (float64, error) {
	bed := *s.Testbed
	bed.Server.Postgres = nil
	site, err := bed.NewSite(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer site.Close()
	grown, err := s.open(ctx, site)
	if err != nil {
		return 0, err
	}
	return grown[0], nil
}

func (s *ClusterIdle) cluster(ctx context.Context, r *report.Result, alone float64) error {
	site, err := s.Testbed.NewCluster(ctx, s.Nodes)
	if err != nil {
		return err
	}
	defer site.Close()
	before, err := s.busy(ctx, site, s.Watch/2, "without sessions")
	if err != nil {
		return err
	}
	grown, err := s.open(ctx, site)
	if err != nil {
		return err
	}
	with, err := s.busy(ctx, site, s.Watch, "with them")
	if err != nil {
		return err
	}
	r.Add("", "memory a session in a cluster, on its node", "B", grown[0])
	r.Add("", "more than on a single server", "B", grown[0]-alone)
	for i, g := range grown[1:] {
		r.Add("", fmt.Sprintf("memory a session on node %d, where it is not", i+2), "B", g)
	}
	if with > 0 {
		r.Add("", "PostgreSQL CPU of the cluster without sessions", "% of a core", before*100)
		r.Add("", "PostgreSQL CPU with them", "% of a core", with*100)
		r.Add("", "PostgreSQL CPU for comparing them", "% of a core", (with-before)*100)
	}
	return nil
}

// gently is the number of connections that a worker opens at a time where memory is measured. Opening many at once would leave the server
// with a thread for each concurrent system call, up to a hundred of 48 KB each, which it never frees: 0.3 KB a session here.
const gently = 4

// open opens the sessions on a site's first server, and returns by how many bytes per session each server has grown.
func (s *ClusterIdle) open(ctx context.Context, site *testbed.Site) (grown []float64, err error) {
	cfg := loadgen.SubscriberConfig{
		Transport: s.Transport, Count: warmSessions, Concurrency: gently, Heartbeat: heartbeat, Spread: true,
		Targets: site.Targets()[:1], Prefix: prefix(),
	}
	if _, err := site.Connect(ctx, cfg, 1); err != nil {
		return nil, err
	}
	if _, err := site.Each(ctx, func(*testbed.Subscribers) worker.Request { return worker.Request{Cut: true} }); err != nil {
		return nil, err
	}
	site.StopWorkers()
	before, err := s.kept(ctx, site)
	if err != nil {
		return nil, err
	}
	cfg.Count, cfg.Prefix = s.Sessions, prefix()
	if _, err := site.Connect(ctx, cfg, s.Workers); err != nil {
		return nil, err
	}
	after, err := s.kept(ctx, site)
	for i := range after {
		grown = append(grown, float64(after[i]-before[i])/float64(s.Sessions))
	}
	return grown, err
}

// giveBack is the interval of requests that make a settling server return unused memory. By itself, a server does so after each 8 MB of
// allocations, which takes an idle server minutes; until then the readings vary by that much.
const giveBack = 5 * time.Second

// kept returns the memory of each server at rest: the lowest resident memory while it settles and returns unused memory.
func (s *ClusterIdle) kept(ctx context.Context, site *testbed.Site) ([]int64, error) {
	least := make([]int64, len(site.Servers))
	look, back := time.NewTicker(100*time.Millisecond), time.NewTicker(giveBack)
	defer look.Stop()
	defer back.Stop()
	for begun := time.Now(); time.Since(begun) < s.Settle; {
		for i, pid := range site.PIDs() {
			u, err := meter.Read(pid)
			if err != nil {
				return nil, err
			}
			if least[i] == 0 || u.Resident < least[i] {
				least[i] = u.Resident
			}
		}
		s.Testbed.Say("settling, %s of %s", time.Since(begun).Round(time.Second), s.Settle)
		select {
		case <-look.C:
		case <-back.C:
			for _, srv := range site.Servers {
				if err := srv.Collect(ctx); err != nil {
					return nil, err
				}
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return least, nil
}

// busy returns the number of cores that PostgreSQL uses while nothing is published.
func (s *ClusterIdle) busy(ctx context.Context, site *testbed.Site, span time.Duration, how string) (cores float64, err error) {
	s.Testbed.Say("watching PostgreSQL for %s, %s", span, how)
	before, err := site.Spent(ctx)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := wait(ctx, span); err != nil {
		return 0, err
	}
	after, err := site.Spent(ctx)
	if err != nil {
		return 0, err
	}
	return after.Since(*before).CPU.Seconds() / time.Since(begun).Seconds(), nil
}
