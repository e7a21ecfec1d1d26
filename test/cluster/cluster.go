// Package cluster starts several nodes of the real server on one PostgreSQL, connected over wires that a test may cut, with HAProxy before
// them, so that the proofs about one server can be repeated with several.
package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// Options of a cluster. The zero value is three development servers on a database of their own.
type Options struct {
	Nodes    int                           // 0: three
	Postgres func(node int) string         // URL of the database; nil: a new one of the server that tests share
	Serve    []blackbox.Option             // of every node
	Of       func(i int) []blackbox.Option // of one node; nil: none
	// NATS is the address of a server that connects the nodes, each over a wire of its own, and Credentials the file of its user. Empty:
	// the nodes connect to each other.
	NATS, Credentials string
}

// Cluster is a group of nodes on one database. They are killed when the test ends.
type Cluster struct {
	Nodes []*blackbox.Server

	t     testing.TB
	front *blackbox.Server // nil: not asked for yet
	wires map[[2]int]*Wire // by the nodes they connect; that of a node with itself leads to NATS
}

// Secret is the secret that the nodes share.
const Secret = "the secret of the nodes of a test"

// Start starts all nodes at once and waits until all are ready and connected to each other.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := New(t, o)
	var g errgroup.Group
	for _, n := range c.Nodes {
		g.Go(n.Launch)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	c.Joined(len(c.Nodes))
	return c
}

// Front returns HAProxy before all nodes; the first call starts it.
func (c *Cluster) Front() *blackbox.Server {
	c.t.Helper()
	if c.front == nil {
		c.front = front(c.t, c.Nodes)
	}
	return c.front
}

// New prepares a cluster without starting it.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.Postgres == nil {
		url := pgtest.Database(t)
		o.Postgres = func(int) string { return url }
	}
	c := &Cluster{t: t, wires: map[[2]int]*Wire{}}
	joining := c.each
	if o.NATS != "" {
		joining = c.byNATS
	}
	for i, join := range joining(o) {
		opts := []blackbox.Option{blackbox.Dev(), join, blackbox.Env("GODWIT_POSTGRES=" + o.Postgres(i))}
		opts = append(opts, o.Serve...)
		if o.Of != nil {
			opts = append(opts, o.Of(i)...)
		}
		c.Nodes = append(c.Nodes, blackbox.New(t, opts...))
	}
	return c
}

// each connects every node with every other one.
func (c *Cluster) each(o Options) (joining []blackbox.Option) {
	addrs := make([]string, o.Nodes)
	for i := range addrs {
		addrs[i] = blackbox.Free(c.t)
	}
	for i := range addrs {
		peers := []string{}
		for j := range addrs {
			if j == i {
				continue
			}
			c.wires[[2]int{i, j}] = NewWire(c.t, "tcp", addrs[j])
			peers = append(peers, c.wires[[2]int{i, j}].Addr())
		}
		joining = append(joining, Joining(c.t, Name(i), addrs[i], Secret, peers...))
	}
	return joining
}

// byNATS connects every node to a NATS server.
func (c *Cluster) byNATS(o Options) (joining []blackbox.Option) {
	for i := range o.Nodes {
		w := NewWire(c.t, "tcp", o.NATS)
		c.wires[[2]int{i, i}] = w
		joining = append(joining, blackbox.Args("--node", Name(i), "--nats", "nats://"+w.Addr(), "--nats-credentials", o.Credentials))
	}
	return joining
}

// Name returns the name of the i-th node.
func Name(i int) string { return fmt.Sprint("n", i+1) }

// Joining returns the settings with which a node joins others.
func Joining(t testing.TB, name, addr, secret string, peers ...string) blackbox.Option {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return blackbox.Args("--node", name, "--cluster-addr", addr, "--cluster-secret-file", file, "--cluster-peers", strings.Join(peers, ","))
}

// Cut cuts the bus between two nodes, like an unplugged cable: neither side is notified.
func (c *Cluster) Cut(i, j int) {
	c.wires[[2]int{i, j}].Cut()
	c.wires[[2]int{j, i}].Cut()
}

// Heal ends a cut.
func (c *Cluster) Heal(i, j int) {
	c.wires[[2]int{i, j}].Heal()
	c.wires[[2]int{j, i}].Heal()
}

// Joined waits until each running node is connected to nodes-1 others.
func (c *Cluster) Joined(nodes int) {
	c.t.Helper()
	for i, n := range c.Nodes {
		if !n.Exited() {
			c.others(i, "alive", nodes-1)
		}
	}
}

// Missed waits until two nodes have noticed that the bus between them is cut.
func (c *Cluster) Missed(i, j int) {
	c.t.Helper()
	c.others(i, "missing", 1)
	c.others(j, "missing", 1)
}

// others waits until a node reports a number of other nodes as alive, or as missing.
func (c *Cluster) others(i int, state string, want int) {
	c.t.Helper()
	api := c.Nodes[i].API()
	blackbox.Eventually(c.t, fmt.Sprintf("to %s %d others are %s", Name(i), want, state), func() error {
		n, err := api.Metric(c.t.Context(), fmt.Sprintf("godwit_cluster_nodes{state=%q", state))
		if err == nil && int(n) != want {
			err = fmt.Errorf("%v are", n)
		}
		return err
	})
}
