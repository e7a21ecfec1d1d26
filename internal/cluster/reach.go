package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"
)

// A node that cannot reach the store itself counts on another one that can: for acknowledgements, and as the place to which its sessions move.
// storeNode alone decides which node that is.

const (
	whatReach     = "reach"
	reachesAtOnce = 8 // takes no time
	// storeFresh is the greatest age of a node's last answer from the store at which other nodes rely on that node. Nodes
	// that watch the store query it five times a second.
	storeFresh = 600 * time.Millisecond
)

// storeNode is the boot of another node that takes sessions and reaches the store, of several the one with the fewest sessions. Empty: there is
// none. Heartbeats decide, and least is 0, for a question that the other node refuses if it has lost the store meanwhile. Heartbeats may be older than a
// loss that hit all nodes, and after such a loss one node finds the store first: so who is to move asks for a node that says now that it
// has reached the store for at least so long.
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

// heardWithStore lists the boots of other nodes that took sessions and whose last heartbeats said that the store had
// answered lately.
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

// OthersReachFor reports whether sessions may move: another node that takes sessions reaches the store, and says that it has for so long. With 0 its last
// heartbeat is enough.
func (c *Cluster) OthersReachFor(ctx context.Context, least time.Duration) bool {
	return c.storeNode(ctx, least) != ""
}

// answerReach answers other nodes for how many milliseconds this one has reached the store; 0: it does not, or takes no sessions.
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
