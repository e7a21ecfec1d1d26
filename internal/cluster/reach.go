package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"
)

// A node that cannot reach the store uses another one that can: to settle acknowledgements, and as the place to which its sessions move.
// storeNode alone chooses that node.

const (
	whatReach     = "reach"
	reachesAtOnce = 8 // takes no time
	// storeFresh is the greatest age of a node's last answer from the store at which other nodes rely on that node. Nodes that monitor the
	// store query it five times a second.
	storeFresh = 600 * time.Millisecond
)

// storeNode returns the boot of another node that accepts sessions and reaches the store: among several, the one with the fewest sessions;
// empty: there is none. With least 0, heartbeats decide: this suffices for questions, which the other node refuses if it has lost the store
// meanwhile. But heartbeats may be older than an outage that hit all nodes, and after such an outage one node reaches the store first. To
// move sessions, therefore, pass a least above 0: storeNode then asks the nodes, and accepts one that has reached the store for at least
// that long.
func (c *Cluster) storeNode(ctx context.Context, least time.Duration) (boot string) {
	found := c.heardWithStore()
	if least > 0 && len(found) > 0 {
		steady := make(map[string]bool, len(found))
		c.askEach(ctx, whatReach, nil, func(boot string, body json.RawMessage) {
			var ms int64
			steady[boot] = json.Unmarshal(body, &ms) == nil && ms >= least.Milliseconds()
		})
		found = slices.DeleteFunc(found, func(boot string) bool { return !steady[boot] })
	}
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// heardWithStore lists the boots of other nodes that accept sessions and whose last heartbeats reported a recent answer from the store; the
// node with the fewest sessions is first.
func (c *Cluster) heardWithStore() (boots []string) {
	now, ns := time.Now(), &c.nodes
	ns.mu.Lock()
	defer ns.mu.Unlock()
	var found []*node
	for _, n := range ns.by {
		if !n.Drains && n.StoreMS != nil && *n.StoreMS <= storeFresh.Milliseconds() && now.Sub(n.heard) <= lateAfter {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b *node) int { return cmp.Or(cmp.Compare(a.Sessions, b.Sessions), cmp.Compare(a.boot, b.boot)) })
	for _, n := range found {
		boots = append(boots, n.boot)
	}
	return boots
}

// OthersReachFor reports whether sessions may move: another node accepts sessions and reports that it has reached the store for at least
// this time. If least is 0, its last heartbeat suffices.
func (c *Cluster) OthersReachFor(ctx context.Context, least time.Duration) bool {
	return c.storeNode(ctx, least) != ""
}

// answerReach answers other nodes' questions with the number of milliseconds for which this node has reached the store; 0: it does not
// reach the store, or does not accept sessions.
func (c *Cluster) answerReach() {
	if c.cfg.Steady == nil {
		return
	}
	c.Answer(whatReach, askPatience, reachesAtOnce, func(context.Context, json.RawMessage) (any, error) {
		c.nodes.mu.Lock()
		drains := c.nodes.drains
		c.nodes.mu.Unlock()
		if drains {
			return 0, nil
		}
		return c.cfg.Steady().Milliseconds(), nil
	})
}
