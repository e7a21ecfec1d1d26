package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// TestASynchronousReplicaTakesOver: the recipe of docs/guides/cluster.md. The primary is killed under load, a replica that each commit waits
// for is promoted, and nodes whose URL names both go on there. Nothing that was acknowledged is lost.
func TestASynchronousReplicaTakesOver(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	primary := pgtest.Start(t, pgtest.Options{Fsync: true, Settings: map[string]string{"wal_keep_size": "256MB"}})
	standby := primary.Standby(t, "replica1")
	statements(t, primary, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (replica1)'", "SELECT pg_reload_conf()")
	synchronous(t, primary)
	url := standby.Either(primary.Server) // the replica is named first
	c := Start(t, Options{Postgres: func(int) string { return url }, Serve: []blackbox.Option{blackbox.Plain()}})
	l := startLoad(t, c.Front())
	l.goesOn(3 * time.Second)

	lost := time.Now()
	primary.Kill()
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	promoted := time.Now()
	var again errgroup.Group
	for i, n := range c.Nodes {
		again.Go(func() error {
			api := n.API()
			defer api.HTTP.CloseIdleConnections()
			return blackbox.Poll(t.Context(), blackbox.Patience, func() error {
				return api.Publish(t.Context(), map[string]any{"id": fmt.Sprint("after-", i), "to": "nobody", "title": "x", "ttl": "1s"})
			})
		})
	}
	if err := again.Wait(); err != nil {
		t.Fatalf("a node does not store on the replica: %v", err)
	}
	t.Logf("the primary was lost for %s until the replica took writes, and all nodes stored again %s after that", promoted.Sub(lost).Round(time.Millisecond), time.Since(promoted).Round(time.Millisecond))
	l.goesOn(3 * time.Second)
	l.end()
}

// statements runs SQL on a server.
func statements(t *testing.T, s *pgtest.Server, list ...string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, statement := range list {
		if _, err := c.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// synchronous waits until each commit of a server waits for a replica.
func synchronous(t *testing.T, s *pgtest.Server) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	blackbox.Eventually(t, "the replica follows", func() error {
		follows := false
		err := c.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'quorum' AND state = 'streaming')").Scan(&follows)
		if err == nil && !follows {
			err = errors.New("it does not yet")
		}
		return err
	})
}
