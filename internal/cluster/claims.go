package cluster

import (
	"encoding/json"
	"slices"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// How claims pace themselves.
const (
	decideAfter  = 250 * time.Millisecond // time in which a move from one node to another counts as neither leaving nor coming
	decideLater  = 100 * time.Millisecond // how long a claim waits that another one precedes
	claimAgain   = time.Second            // pause before a node that has not answered is asked again
	claimMost    = 10 * time.Second       // after which it is not waited for
	rememberTold = time.Minute
	claimsAtOnce = 500 // in one message: well below the line's limit
)

// claims are this node's assumptions that it is the first node a recipient came to, or the last it left. It asks all other nodes about
// each, and informs followers when all have answered without an objection. Nodes number their statements by a common count: each is later
// than all that its node had received before. So of two claims made without knowledge of each other both sides agree which came first.
type claims struct {
	open map[mailbox.Address]*claim
	told map[mailbox.Address]told // that somebody left, lately
	n    int64                    // the common count
}

// claim is that a recipient came to this node first, or left it last.
type claim struct {
	at     mailbox.Address
	coming bool
	began  int64            // in the common count
	left   int64            // when a recipient that came left again before the decision, in the common count; 0: it has not
	since  time.Time        // when this node made it
	until  time.Time        // it is not decided before
	asked  time.Time        // last; zero: not yet
	heard  map[string]stand // of each node the latest, by boot
}

type told struct {
	n  int64
	at time.Time
}

// stand is a node's data about a recipient.
type stand struct {
	App      string   `json:"app"`
	To       string   `json:"to"`
	N        int64    `json:"n"`                 // of this statement in the common count
	Here     bool     `json:"here,omitempty"`    // connected to it
	Coming   int64    `json:"coming,omitempty"`  // since when it claims that the recipient came; 0: it does not
	Leaving  int64    `json:"leaving,omitempty"` // or that it left; with both, that it came and then left
	Told     int64    `json:"told,omitempty"`    // when it last reported that the recipient left
	BackedUp []string `json:"wards,omitempty"`   // boots of nodes that the recipient was connected to by their word
}

func (cs *claims) init() {
	cs.open = make(map[mailbox.Address]*claim)
	cs.told = make(map[mailbox.Address]told)
}

// next is the number of a statement. Nodes that start begin with the time, so that they are not behind for long.
func (cs *claims) next() int64 {
	cs.n = max(cs.n+1, time.Now().UnixMilli())
	return cs.n
}

// claim begins a claim. If a recipient comes back while the claim that it left is open, that claim is dropped and followers are
// informed of neither. If it leaves while the claim that it came is open, followers are informed of neither only if it was connected
// nowhere else before: another node may have reported nothing when the recipient left there, since it was here. So the arrival is
// decided first. A node without others need not ask. p.mu is held.
func (c *Cluster) claim(at mailbox.Address, coming bool) {
	cs := &c.presence.claims
	c.presence.backups.changed(at)
	if cl := cs.open[at]; cl != nil {
		switch {
		case !cl.coming && coming:
			delete(cs.open, at)
		case cl.coming && coming:
			cl.left = 0
		case cl.coming && cl.left == 0:
			cl.left = cs.next()
		}
		return
	}
	if c.alone() {
		c.emitOf(at, coming)
		return
	}
	now := time.Now()
	cs.open[at] = &claim{at: at, coming: coming, began: cs.next(), since: now, until: now.Add(decideAfter), heard: map[string]stand{}}
}

func (c *Cluster) emitOf(at mailbox.Address, coming bool) {
	hub := c.hub.Load()
	switch {
	case hub == nil:
	case coming:
		hub.Emit(event.Online, at.App, at.Recipient)
	default:
		hub.Emit(event.Offline, at.App, at.Recipient)
	}
}

// stand returns this node's data about a recipient. p.mu is held.
func (c *Cluster) stand(at mailbox.Address) stand {
	p := &c.presence
	st := stand{App: at.App, To: at.Recipient, N: p.claims.next(), Here: c.present(at, 0) > 0, Told: p.claims.told[at].n, BackedUp: p.backups.of(at)}
	if cl := p.claims.open[at]; cl != nil && cl.coming {
		st.Coming, st.Leaving = cl.began, cl.left
	} else if cl != nil {
		st.Leaving = cl.began
	}
	return st
}

// decide asks the other nodes about new and unanswered claims, and informs followers about decided ones.
func (c *Cluster) decide(now time.Time) {
	nodes, p := c.deciding(), &c.presence
	var ask []stand
	p.mu.Lock()
	some := len(p.claims.open) > 0
	for at, cl := range p.claims.open {
		answered := !cl.asked.IsZero()
		for _, boot := range nodes {
			_, ok := cl.heard[boot]
			answered = answered && ok
		}
		if !answered && now.Sub(cl.asked) >= claimAgain {
			ask, cl.asked = append(ask, c.stand(at)), now
		}
		late := now.Sub(cl.since) >= claimMost
		if now.Before(cl.until) || !answered && len(nodes) > 0 && !late {
			continue
		}
		tell, wait := c.verdict(cl)
		if wait && !late {
			cl.until, cl.asked = now.Add(decideLater), time.Time{}
			clear(cl.heard)
			continue
		}
		c.decided(cl, tell || wait, now)
	}
	if some && len(p.claims.open) == 0 {
		p.claims.open = make(map[mailbox.Address]*claim) // a map keeps the room of the most that it had
	}
	p.claims.forgetTold(now)
	p.mu.Unlock()
	for batch := range slices.Chunk(ask, claimsAtOnce) {
		_ = c.publish(allNodes, message{kind: kindClaims, body: text(batch)})
	}
}

// decided ends a claim and informs followers if it is right. p.mu is held.
func (c *Cluster) decided(cl *claim, right bool, now time.Time) {
	cs := &c.presence.claims
	delete(cs.open, cl.at)
	switch {
	case cl.left > 0 && !right: // it was elsewhere before, where it may have left since
		cs.open[cl.at] = &claim{at: cl.at, began: cl.left, since: now, until: now, heard: map[string]stand{}}
	case cl.left > 0: // it has been here, and followers were not informed
	case right:
		c.emitOf(cl.at, cl.coming)
		if !cl.coming {
			cs.told[cl.at] = told{cs.next(), now}
		}
	}
	c.presence.backups.changed(cl.at)
}

// leaving reports whether it is still undecided which node reports that the recipient left.
func (cl *claim) leaving() bool { return !cl.coming || cl.left > 0 }

// verdict returns whether to inform followers, or whether another claim has to be decided before. p.mu is held.
func (c *Cluster) verdict(cl *claim) (tell, wait bool) {
	backups := c.presence.backups.of(cl.at)
	for boot, st := range cl.heard {
		theirs := st.Leaving
		if cl.coming {
			theirs = st.Coming
		}
		switch {
		case st.Here && (!cl.coming || st.Coming == 0):
			return false, false // it is there
		case cl.coming && st.Leaving > 0 && st.Coming == 0:
			return false, false // it moved from there to here, and that node reports nothing either
		case !cl.coming && st.Told > cl.began:
			return false, false // that node has said so
		case theirs > 0 && (theirs < cl.began || theirs == cl.began && boot < c.cfg.Boot):
			wait = true
		}
		backups = append(backups, st.BackedUp...)
	}
	for _, boot := range backups {
		if _, itself := cl.heard[boot]; !itself && boot != c.cfg.Boot {
			return false, false // it is at a node that does not answer; if that node is dead, its backup informs followers
		}
	}
	return !wait, wait
}

// gotStands notes another node's data about recipients, and answers if it contains a claim.
func (c *Cluster) gotStands(m *message) {
	var list []stand
	if json.Unmarshal(m.body, &list) != nil {
		c.counts.undecoded.Add(1)
		return
	}
	p := &c.presence
	answer := make([]stand, 0, len(list))
	p.mu.Lock()
	for _, st := range list {
		at := mailbox.Address{App: st.App, Recipient: st.To}
		p.claims.n = max(p.claims.n, st.N)
		if cl := p.claims.open[at]; cl != nil && st.N > max(cl.began, cl.heard[m.from].N) { // data from before the claim may be outdated
			cl.heard[m.from] = st
		}
		if m.kind == kindClaims {
			answer = append(answer, c.stand(at))
		}
	}
	p.mu.Unlock()
	if len(answer) > 0 {
		_ = c.publish(oneNode+m.from, message{kind: kindStands, body: text(answer)}) // a node that does not get the answer asks again
	}
}

// forget drops the statements of a dead node.
func (cs *claims) forget(boot string) {
	for _, cl := range cs.open {
		delete(cl.heard, boot)
	}
}

func (cs *claims) forgetTold(now time.Time) {
	some := len(cs.told) > 0
	for at, t := range cs.told {
		if now.Sub(t.at) > rememberTold {
			delete(cs.told, at)
		}
	}
	if some && len(cs.told) == 0 {
		cs.told = make(map[mailbox.Address]told)
	}
}
