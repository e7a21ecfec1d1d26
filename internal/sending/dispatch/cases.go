package dispatch

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	"godwit.dev/godwit/internal/sending/judge"
	"godwit.dev/godwit/internal/sending/pace"
)

// maxCases limits how many scopes are kept. Strangers can create origins: at the limit, idle scopes are dropped, and if none are idle, all
// new scopes of an app's channel share one.
const maxCases = 10_000

// cases holds the evidence about every scope.
type cases struct {
	mu  sync.Mutex
	all map[pace.Scope]*judge.Case
}

func newCases() *cases { return &cases{all: make(map[pace.Scope]*judge.Case)} }

// of returns a scope's case, and makes it if necessary.
func (cs *cases) of(s pace.Scope) *judge.Case {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.all[s]
	if c != nil {
		return c
	}
	if len(cs.all) >= maxCases {
		cs.forget()
	}
	if len(cs.all) >= maxCases {
		s.Name = ""
		if c = cs.all[s]; c != nil {
			return c
		}
	}
	c = new(judge.Case)
	cs.all[s] = c
	return c
}

func (cs *cases) forget() {
	for s, c := range cs.all {
		if c.Idle() {
			delete(cs.all, s)
		}
	}
}

// reset discards the evidence about an app's credentials, which have to be tested again.
func (cs *cases) reset(app string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for s, c := range cs.all {
		if s.App == app {
			c.Reset()
		}
	}
}

var partySeed = maphash.MakeSeed()

// party identifies the recipient of a delivery.
func party(d *Delivery) judge.Party {
	if d.Recipient != "" {
		return judge.Party(maphash.String(partySeed, d.Recipient))
	}
	return judge.Party(binary.BigEndian.Uint64(d.EndpointID[8:]))
}

const (
	// enterWithin is how long a sender waits for a place at a host that has none free: hosts that answer free one sooner. After that, the
	// host's deliveries are postponed without a wait, so that they do not delay others.
	enterWithin = 100 * time.Millisecond
	// Deliveries of a crowded host are retried after this time, which grows with the time the host has been crowded.
	leastCrowded, mostCrowded = 250 * time.Millisecond, 5 * time.Second
	// shuffled is the time over which deliveries that wait during a doubt are spread, so that chance decides which of them are sent.
	shuffled = 5 * time.Second
	// maxCrowds limits the crowded hosts that a sender keeps in memory.
	maxCrowds = 1_000
)

// crowds are the hosts of a sender that had no place free within enterWithin, with the time since then.
type crowds map[*judge.Case]time.Time

// room is how many places a scope may have: its share, and no more than are free. So one host that hangs occupies at most half of the
// sender's places, two hosts a third each, and some places always remain.
func (l *channelSender) room() int {
	if l.policy.Solo {
		return l.policy.Share
	}
	return min(l.policy.Share, cap(l.inFlight)-len(l.inFlight))
}

// enter takes one of the scope's places for requests under way. False: there is none, and the result states when to try again.
func (b *batch) enter(d *Delivery, s scope, now time.Time) (Result, bool) {
	l := b.of
	var late <-chan time.Time
	for {
		wait, ok := s.Enter(l.room(), now)
		if ok {
			delete(l.crowds, s.Case)
			return Result{}, true
		}
		if wait == nil {
			return d.again(now.Add(scatter(d, shuffled))), false
		}
		b.claim() // the group's deliveries also hold places
		since, crowded := l.crowds[s.Case]
		if crowded {
			off := min(max(now.Sub(since), leastCrowded), mostCrowded)
			return d.again(now.Add(off + scatter(d, off))), false
		}
		if late == nil {
			t := time.NewTimer(enterWithin)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-wait:
		case <-late:
			if len(l.crowds) >= maxCrowds {
				clear(l.crowds)
			}
			l.crowds[s.Case] = now
		case <-b.ctx.Done():
			return d.again(now), false
		}
		now = l.d.now()
	}
}

// scatter returns a part of the time over, different for each delivery and each try.
func scatter(d *Delivery, over time.Duration) time.Duration {
	return time.Duration(maphash.Comparable(maphash.MakeSeed(), d.Row) % uint64(over)) // no secret
}
