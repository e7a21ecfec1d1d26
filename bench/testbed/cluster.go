package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/testkit/freeport"
)

// ErrNoPostgres reports that a cluster has no database to share.
var ErrNoPostgres = errors.New("several nodes need a PostgreSQL server that they share")

// NewCluster starts nodes that share one database, and waits until each is connected to all others.
func (l *Testbed) NewCluster(ctx context.Context, nodes int) (*Site, error) {
	if l.Running != nil || l.Server.Postgres == nil {
		return nil, ErrNoPostgres
	}
	s := &Site{bed: l}
	if err := s.startNodes(ctx, nodes); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Site) startNodes(ctx context.Context, nodes int) (err error) {
	if s.shared, err = s.bed.Server.Postgres.NewDatabase(ctx); err != nil {
		return err
	}
	if s.secret, err = secretFile(s.bed.Server.Dir); err != nil {
		return err
	}
	addrs := make([]string, nodes)
	for i := range addrs {
		var release func()
		if addrs[i], release, err = freeport.Loopback(ctx); err != nil {
			return err
		}
		s.release = append(s.release, release)
	}
	s.bed.Say("starting %d nodes", nodes)
	s.Servers = make([]*Server, nodes)
	errs := make([]error, nodes)
	var wg sync.WaitGroup
	for i, addr := range addrs {
		o := s.bed.Server
		others := slices.Concat(addrs[:i], addrs[i+1:])
		o.Args = append(slices.Clone(o.Args), "--node", fmt.Sprint("n", i+1), "--cluster-addr", addr, "--cluster-secret-file", s.secret)
		if len(others) > 0 {
			o.Args = append(o.Args, "--cluster-peers", strings.Join(others, ","))
		}
		wg.Go(func() { s.Servers[i], errs[i] = startServer(ctx, o, s.shared) })
	}
	wg.Wait()
	s.Servers = slices.DeleteFunc(s.Servers, func(srv *Server) bool { return srv == nil })
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.joined(ctx)
}

// secretFile creates the file with the secret by which nodes authenticate each other.
func secretFile(dir string) (name string, err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "godwit-bench-secret-")
	if err != nil {
		return "", fmt.Errorf("make the nodes' secret: %w", err)
	}
	_, err = f.WriteString("the secret of the nodes of a benchmark")
	return f.Name(), errors.Join(err, f.Close())
}

// joined waits until each node is connected to all others.
func (s *Site) joined(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("the nodes did not hear each other within %s", startPatience))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, srv := range s.Servers {
		for {
			n, err := srv.Metric(ctx, `godwit_cluster_nodes{state="alive"}`)
			if err == nil && int(n) == len(s.Servers)-1 {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// Commits returns the number of transactions that the stores of all servers have committed since their start.
func (s *Site) Commits(ctx context.Context) (sum float64, err error) {
	for _, srv := range s.Servers {
		n, err := srv.Metric(ctx, "godwit_store_commits_total")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Spent returns the resources that the servers' PostgreSQL has used so far; nil: there is no PostgreSQL.
func (s *Site) Spent(ctx context.Context) (*Spent, error) {
	p := s.bed.Server.Postgres
	if p == nil || s.bed.Running != nil || s.bed.Rival != nil {
		return nil, nil
	}
	spent, err := p.Spent(ctx)
	return &spent, err
}
