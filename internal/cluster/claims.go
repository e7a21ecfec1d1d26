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
	decideAfter  = 250 * time.Millisecond // a move between nodes within this time counts as neither leaving nor coming
	decideLater  = 100 * time.Millisecond // delay of a claim that an earlier claim must precede
	claimAgain   = time.Second            // pause before a node that has not answered is asked again
	claimMost    = 10 * time.Second       // after this time, a claim is decided without missing answers
	rememberTold = time.Minute
	claimsAtOnce = 500 // claims in one message, which stays well below the line's limit
)

// claims holds this node's claims: that it is the first node to which a recipient came, or the last that the recipient left. It asks all
// other nodes about each claim, and informs followers when all have answered without an objection. Nodes number their statements by a
// logical clock: each number is greater than all numbers the node has received before. So if two nodes make claims without knowledge of
// each other, both agree on the order.
type claims struct {
	open map[mailbox.Address]*claim
	told map[mailbox.Address]told // that somebody left, lately
	n    int64                    // the common count
}

// claim is one claim: a recipient came to this node first, or left it last.
type claim struct {
	at     mailbox.Address
	coming bool
	began  int64            // in the common count
	left   int64            // number of the statement that a recipient whose arrival is undecided has left again; 0: it has not
	since  time.Time        // when this node made it
	until  time.Time        // it is not decided before
	asked  time.Time        // last; zero: not yet
	heard  map[string]stand // latest statement of each node, by boot
}

type told struct {
	n  int64
	at time.Time
}

// stand is a node's statement about a recipient.
type stand struct {
	App      string   `json:"app"`
	To       string   `json:"to"`
	N        int64    `json:"n"`                 // number of this statement
	Here     bool     `json:"here,omitempty"`    // connected to it
	Coming   int64    `json:"coming,omitempty"`  // number of the claim that the recipient came; 0: there is none
	Leaving  int64    `json:"leaving,omitempty"` // number of the claim that the recipient left; with both, it came and then left
	Told     int64    `json:"told,omitempty"`    // number of the last report that the recipient left
	BackedUp []string `json:"wards,omitempty"`   // boots of nodes that have told the sender, as their backup, that the recipient is connected to them
}

func (cs *claims) init() {
	cs.open = make(map[mailbox.Address]*claim)
	cs.told = make(map[mailbox.Address]told)
}

// next returns the number for a statement. A node that starts begins with the time in milliseconds, so that it soon catches up with the
// others.
func (cs *claims) next() int64 {
	cs.n = max(cs.n+1, time.Now().UnixMilli())
	return cs.n
}

// claim begins a claim. If a recipient comes back while the claim that it left is open, the claim is dropped, and followers learn of
// neither event. If it leaves while the claim that it came is open, the arrival is decided first: followers learn of neither event only if
// the recipient was connected nowhere else before. Otherwise another node may have reported nothing when the recipient left there, because
// it was connected here. A node without other nodes need not ask. p.mu is held.
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

// stand returns this node's statement about a recipient. p.mu is held.
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
		p.claims.open = make(map[mailbox.Address]*claim) // a new map, because a map keeps the memory of its largest size
	}
	p.claims.forgetTold(now)
	p.mu.Unlock()
	for batch := range slices.Chunk(ask, claimsAtOnce) {
		_ = c.publish(allNodes, message{kind: kindClaims, body: text(batch)})
	}
}

// decided ends a claim and, if the claim is right, informs followers. p.mu is held.
func (c *Cluster) decided(cl *claim, right bool, now time.Time) {
	cs := &c.presence.claims
	delete(cs.open, cl.at)
	switch {
	case cl.left > 0 && !right: // it was connected elsewhere before, and may have left there since
		cs.open[cl.at] = &claim{at: cl.at, began: cl.left, since: now, until: now, heard: map[string]stand{}}
	case cl.left > 0: // it came and left; followers are informed of neither
	case right:
		c.emitOf(cl.at, cl.coming)
		if !cl.coming {
			cs.told[cl.at] = told{cs.next(), now}
		}
	}
	c.presence.backups.changed(cl.at)
}

// leaving reports whether it is still undecided which node reports the recipient's departure.
func (cl *claim) leaving() bool { return !cl.coming || cl.left > 0 }

// verdict returns whether to inform followers (tell), and whether another claim must be decided before (wait). p.mu is held.
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
			return false, false // it moved from that node to this one, and that node does not report a departure either
		case !cl.coming && st.Told > cl.began:
			return false, false // that node has said so
		case theirs > 0 && (theirs < cl.began || theirs == cl.began && boot < c.cfg.Boot):
			wait = true
		}
		backups = append(backups, st.BackedUp...)
	}
	for _, boot := range backups {
		if _, itself := cl.heard[boot]; !itself && boot != c.cfg.Boot {
			return false, false // it is connected to a node that does not answer; if that node is dead, its backup informs followers
		}
	}
	return !wait, wait
}

// gotStands records another node's statements about recipients, and answers them if they contain a claim.
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
		if cl := p.claims.open[at]; cl != nil && st.N > max(cl.began, cl.heard[m.from].N) { // a statement from before the claim may be outdated
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

// forget removes the statements of a dead node.
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
