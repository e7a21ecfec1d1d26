package pace

import (
	"slices"
	"time"
)

// Urgent messages go first within a scope, at its rate. Other messages hold the slots for which they wait, and an urgent message takes the
// earliest held slot that is still unused. Every slot is used once, so the cap holds.

const (
	// standBack is the time for which other messages still let an urgent one pass after its next try was due: a busy machine's timers are
	// late.
	standBack = 20 * time.Millisecond
	// askAgain is the interval at which a message that may not leave yet tries again: an answer may shorten the wait.
	askAgain = 10 * time.Millisecond
)

// Hold records that a message waits for a slot. Until it calls Begin, an urgent message may take the slot.
func (p *Pacer) Hold(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, at)
}

// Begin ends the wait for a held slot. It returns false if an urgent message has taken the slot.
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

// Urgent is Slot for an urgent message: it reserves the earliest held slot, or else the next one.
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

// DepartFirst is Depart for an urgent message: if it has to wait, other messages let it pass first.
func (p *Pacer) DepartFirst(now time.Time, n int) (seq uint64, wait time.Duration) {
	if p.counts == nil {
		return 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leaveFirst(now, n)
}

func (p *Pacer) leaveFirst(now time.Time, n int) (seq uint64, wait time.Duration) {
	p.passing = time.Time{}
	if seq, wait = p.leave(now, n); wait > 0 {
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
