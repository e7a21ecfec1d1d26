package pace

import (
	"slices"
	"time"
)

// Urgent messages go first within a scope, at its rate. Other messages hold the slots that they wait for, and an urgent
// one takes the earliest held slot that is not used yet: every slot is used once, so the cap is kept.

const (
	// standBack is how long after an urgent message's next try was due other messages still let it pass: a busy machine's
	// timers are late.
	standBack = 20 * time.Millisecond
	// askAgain is the interval at which a message that may not leave yet tries again: an answer may shorten the wait.
	askAgain = 10 * time.Millisecond
)

// Hold notes that a message waits for a slot. Until Begin, an urgent message may take it.
func (p *Pacer) Hold(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, at)
}

// Begin ends the wait for a slot that is held. False: an urgent message has taken it.
func (p *Pacer) Begin(at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.held, at.Equal)
	if i < 0 {
		return false
	}
	p.held = slices.Delete(p.held, i, i+1)
	return true
}

// Urgent is Slot for an urgent message: the earliest one that is held, or else the next.
func (p *Pacer) Urgent(now time.Time, patience time.Duration) (at time.Time, ok bool) {
	p.mu.Lock()
	first := -1
	for i, at := range p.held {
		if !at.Before(p.until) && (first < 0 || at.Before(p.held[first])) {
			first = i
		}
	}
	if first < 0 {
		p.mu.Unlock()
		return p.Slot(now, patience)
	}
	defer p.mu.Unlock()
	if at = p.held[first]; at.Before(now) {
		at = now
	}
	if at.Sub(now) > patience {
		return at, false
	}
	p.held = slices.Delete(p.held, first, first+1)
	return at, true
}

// DepartFirst is Depart for an urgent message: if it has to wait, messages that are not urgent wait for it.
func (p *Pacer) DepartFirst(now time.Time) (seq uint64, wait time.Duration) {
	if p.counts == nil {
		return 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passing = time.Time{}
	if seq, wait = p.leave(now); wait > 0 {
		p.passing = now.Add(wait + standBack)
	}
	return seq, wait
}

// BookFirst is Book for an urgent message: it does not queue behind others.
func (p *Pacer) BookFirst(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := now
	if first.Before(p.until) {
		first = p.until
	}
	if p.bookedFirst.Before(first) {
		p.bookedFirst = first
	}
	p.bookedFirst = p.bookedFirst.Add(p.bookGap())
	return p.bookedFirst
}
