package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
)

var _ mailbox.Presence = everybody{}

// Live returns the number of sessions on this node.
func (c *Cluster) Live() int { return c.hub.Load().Live() }

// Counts returns numbers of notifications on this node since its start: written to sessions, how many of these repeatedly, and
// acknowledged.
func (c *Cluster) Counts() (delivered, redelivered, acked uint64) { return c.hub.Load().Counts() }

// Node is another node, as shown to people.
type Node struct {
	Name, Boot, Version string
	Up                  time.Duration
	Sessions            int
	Offset              time.Duration // its clock minus this node's, including the transit time of a message
	Heard               time.Duration // ago; 0 with Missing: never
	Missing, Drains     bool
	Why                 Why // of one that is missing
	Pace                Pace
	Backup              string // boot of the node that keeps the names of its recipients, too; empty: none
}

// Why is the reason why a node is missing.
type Why uint8

// Reasons.
const (
	WhyUnknown    Why = iota // it fell silent a moment ago, and the store has not been queried since
	WhyEnded                 // it was killed, or its machine is lost: its lease has ended without an orderly stop
	WhyCut                   // it is alive but no longer heard
	WhyNeverHeard            // it is alive but was never heard
)

// String describes the reason in a sentence.
func (w Why) String() string {
	return [...]string{
		"it fell silent; whether it lives shows within 20 s",
		"it does not live and has not ended in order: it was killed, or its machine is lost",
		"it lives, since it renews its lease in the database, but is not heard over the bus: the network between the nodes is cut",
		"it lives, since it renews its lease in the database, but was never heard over the bus: it cannot be connected with",
	}[w]
}

// why returns the reason why a node is missing. ns.mu is held.
func (ns *nodes) why(n *node) Why {
	switch {
	case n.heard.IsZero():
		return WhyNeverHeard
	case ns.lives[n.boot] && time.Since(n.heard) > rollEvery:
		return WhyCut
	}
	return WhyUnknown
}

// Nodes lists the other nodes that are or may be alive, and lost nodes that were not removed from the list, by name.
func (c *Cluster) Nodes() []Node {
	now, ns := time.Now(), &c.nodes
	ns.mu.Lock()
	defer ns.mu.Unlock()
	list := make([]Node, 0, len(ns.by))
	for _, n := range ns.by {
		v := Node{
			Name: n.Node, Boot: n.boot, Version: n.Version, Up: time.Duration(n.UpMS) * time.Millisecond, Sessions: n.Sessions, Offset: n.offset,
			Missing: now.Sub(n.heard) > silentAfter, Drains: n.Drains, Pace: n.did.pace(n.StoreMS, n.LagMS), Backup: n.Backup,
		}
		if !n.heard.IsZero() {
			v.Heard = now.Sub(n.heard)
		}
		if v.Missing {
			v.Why = ns.why(n)
		}
		list = append(list, v)
	}
	for _, m := range ns.dead {
		if ns.by[m.Boot] == nil {
			list = append(list, Node{Name: m.Name, Boot: m.Boot, Heard: m.Silent, Missing: true, Why: WhyEnded})
		}
	}
	slices.SortFunc(list, func(a, b Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Boot, b.Boot)) })
	return list
}

// Drain informs the other nodes that this one is ending its sessions.
func (c *Cluster) Drain() {
	c.nodes.mu.Lock()
	c.nodes.drains = true
	c.nodes.mu.Unlock()
	c.say()
}

// viewsAtOnce is the number of questions of each kind about sessions that are answered at once.
const viewsAtOnce = 4

// Kinds of questions about sessions.
const (
	whatSessions   = "sessions"
	whatOnline     = "online"
	whatDisconnect = "disconnect"
	whatSlowest    = "slowest"
	whatNewest     = "newest"
)

// askRecipients is a question about an app's recipients.
type askRecipients struct {
	App        string   `json:"app"`
	Recipients []string `json:"recipients"`
	Reason     string   `json:"reason,omitempty"`
	Device     string   `json:"device,omitempty"`
}

// newest is the time since when a node has its newest session of a recipient.
type newest struct {
	Boot    string `json:"boot"`
	SinceMS int64  `json:"since_ms,omitempty"` // 0: it has none
}

type askSlowest struct {
	App string        `json:"app"`
	By  session.Order `json:"by"`
	N   int           `json:"n"`
}

// answerAs sets a handler that decodes the question from the body.
func answerAs[Q any](c *Cluster, what string, do func(ctx context.Context, q Q) (any, error)) {
	c.Answer(what, askPatience, viewsAtOnce, func(ctx context.Context, body json.RawMessage) (any, error) {
		var q Q
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, err
		}
		return do(ctx, q)
	})
}

// answerSessions sets the handlers of other nodes' questions about the sessions here.
func (c *Cluster) answerSessions(hub *session.Hub) {
	answerAs(c, whatSessions, func(ctx context.Context, q askRecipients) (any, error) {
		live, _, err := hub.Sessions(ctx, q.App, q.Recipients)
		for i := range live {
			for k := range live[i] {
				live[i][k].Node = c.cfg.Node
			}
		}
		return live, err
	})
	answerAs(c, whatOnline, func(ctx context.Context, q askRecipients) (any, error) {
		names := []string{}
		for _, r := range q.Recipients {
			some, err := hub.Online(ctx, q.App, r)
			if err != nil {
				return nil, err
			}
			names = append(names, some...)
		}
		return names, nil
	})
	answerAs(c, whatDisconnect, func(ctx context.Context, q askRecipients) (any, error) {
		n := 0
		for _, r := range q.Recipients {
			one, _, err := hub.Disconnect(ctx, q.App, r, q.Reason)
			if err != nil {
				return nil, err
			}
			n += one
		}
		return n, nil
	})
	answerAs(c, whatSlowest, func(ctx context.Context, q askSlowest) (any, error) {
		lags, _, err := hub.Slowest(ctx, q.App, q.By, q.N)
		for i := range lags {
			lags[i].Node = c.cfg.Node
		}
		return lags, err
	})
}

// Sessions lists the sessions of each of these recipients on all nodes. partial: some nodes did not answer.
func (c *Cluster) Sessions(ctx context.Context, app string, recipients []string) (live [][]session.Info, partial bool, err error) {
	if live, _, err = c.hub.Load().Sessions(ctx, app, recipients); err != nil || c.alone() {
		return live, false, err
	}
	complete := c.askAll(ctx, whatSessions, askRecipients{App: app, Recipients: recipients}, func(body json.RawMessage) {
		var theirs [][]session.Info
		if json.Unmarshal(body, &theirs) == nil && len(theirs) == len(live) {
			for i := range theirs {
				live[i] = append(live[i], theirs[i]...)
			}
		}
	})
	return live, !complete, nil
}

// Disconnect ends all sessions of a recipient on all nodes, and returns their number.
func (c *Cluster) Disconnect(ctx context.Context, app, recipient, reason string) (n int, partial bool, err error) {
	if n, _, err = c.hub.Load().Disconnect(ctx, app, recipient, reason); err != nil || c.alone() {
		return n, false, err
	}
	complete := c.askAll(ctx, whatDisconnect, askRecipients{App: app, Recipients: []string{recipient}, Reason: reason}, func(body json.RawMessage) {
		var theirs int
		if json.Unmarshal(body, &theirs) == nil {
			n += theirs
		}
	})
	return n, !complete, nil
}

// Slowest lists up to n sessions of an app on all nodes that have something unacknowledged or queued, the slowest first.
func (c *Cluster) Slowest(ctx context.Context, app string, by session.Order, n int) (lags []session.Lag, partial bool, err error) {
	if lags, _, err = c.hub.Load().Slowest(ctx, app, by, n); err != nil || c.alone() {
		return lags, false, err
	}
	complete := c.askAll(ctx, whatSlowest, askSlowest{App: app, By: by, N: n}, func(body json.RawMessage) {
		var theirs []session.Lag
		if json.Unmarshal(body, &theirs) == nil {
			lags = append(lags, theirs...)
		}
	})
	session.SortLags(lags, by)
	return lags[:min(n, len(lags))], !complete, nil
}

// everybody reports who is online on all nodes.
type everybody struct{ c *Cluster }

// Online implements mailbox.Presence.
func (e everybody) Online(ctx context.Context, app, recipient string) ([]string, error) {
	c := e.c
	names, err := c.hub.Load().Online(ctx, app, recipient)
	if err != nil || c.alone() {
		return names, err
	}
	complete := c.askAll(ctx, whatOnline, askRecipients{App: app, Recipients: []string{recipient}}, func(body json.RawMessage) {
		var theirs []string
		if json.Unmarshal(body, &theirs) == nil {
			names = append(names, theirs...)
		}
	})
	if !complete {
		return nil, fmt.Errorf("%w: not every node could be asked which devices are online", topic.ErrUnavailable)
	}
	return names, nil
}
