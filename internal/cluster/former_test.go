package cluster_test

import (
	"fmt"
	"testing"

	"godwit.dev/godwit/internal/testkit/eventually"
)

// TestNodesOfTwoReleasesAreOneCluster: while nodes are upgraded one after the other, each routes to all others, and knows the recipients
// connected to them.
func TestNodesOfTwoReleasesAreOneCluster(t *testing.T) {
	w := newWorld(t, 0)
	w.start("node-0")
	w.old = true
	w.start("node-1")
	w.old = false
	w.start("node-2")
	w.joined(w.nodes...)
	clients := make([]*client, len(w.nodes))
	for i, n := range w.nodes {
		clients[i] = n.connect(fmt.Sprint("r", i), "")
		n.connect("everywhere", "")
	}
	for i, c := range clients {
		for k, n := range w.nodes {
			if k != i {
				w.routes(n, c, fmt.Sprint("r", i))
			}
		}
	}
	for _, n := range w.nodes {
		eventually.True(t, n.name+" knows of the sessions at the others", func() bool { return len(n.cluster.Online("demo", "everywhere")) == 2 })
	}
	w.nodes[1].close()
	w.routes(w.nodes[0], clients[2], "r2")
	w.routes(w.nodes[2], clients[0], "r0")
}
