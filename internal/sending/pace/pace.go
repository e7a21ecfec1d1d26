// Package pace delays messages that a provider would refuse as too many: each scope (a credential, or a credential at one origin) has a
// schedule whose rate follows the provider's answers.
package pace

import (
	"sync"
	"time"
)

// Constants of the rate at which messages are sent to a scope (a credential, or a credential at one origin).
const (
	// underCap is the part of a known cap to which the rate is limited.
	underCap = 0.97
	// A provider counts messages as they arrive: at an unknown time between departure and answer. So with a cap of 30/s, the 31st message
	// leaves one second after the answer to the first, less the shortest time that an answer travels.
	counting   = time.Second + 2*time.Millisecond
	transit    = 0.8                     // part of the quickest answer's round trip spent on the network, without the provider's own work
	unanswered = 1250 * time.Millisecond // a message without an answer no longer counts after this time
	// maxCounted is the highest cap for which messages are counted, in messages a second; equal gaps alone enforce higher ones.
	maxCounted = 200
	// makeUp limits the lost time that the schedule makes up. A busy machine's timers are late; that must not lower the rate while the cap
	// holds.
	makeUp = 200 * time.Millisecond
	// If the cap is unknown or higher than startRate, sending begins at startRate, in messages a second. The rate doubles while it is fully
	// used without objections.
	startRate   = 500.0
	doubleEvery = 100 * time.Millisecond
	fullRate    = 100_000.0 // faster than any machine sends: effectively no limit
	// An objection cuts the rate; it then grows slowly again.
	cutTo     = 0.7
	growBy    = 0.5  // a second for each second
	growShare = 0.02 // growth as a share of the rate, if no cap is known: for thousands a second, steps of half a message would take too long
	leastRate = 0.2
	// timerSlack limits the timer lateness that the schedule makes up if no cap is known.
	timerSlack = 5 * time.Millisecond

	minPause = time.Second
	maxPause = 30 * time.Second
)

// Pacer paces one scope: it has a virtual schedule with equal gaps (GCRA), whose rate follows the provider's answers, and, where a cap is
// known, a count of the messages sent within a second.
type Pacer struct {
	mu     sync.Mutex
	cap    float64 // 0: none is known
	rate   float64
	slow   bool          // rate doubles: no objection yet
	tat    time.Time     // when the next message is due by the schedule
	counts []counted     // one entry for each message that a second may have; nil: messages are not counted
	seq    uint64        // number of the newest counted message
	quick  time.Duration // the quickest answer; 0: none yet
	booked time.Time     // time of the latest booking
	drawn  int           // number of bookings drawn while probing, which scatters them
	// For urgent messages: the slots that other messages wait for, the time until which these let an urgent one pass, and the latest urgent
	// booking.
	held        []time.Time
	passing     time.Time
	bookedFirst time.Time
	until       time.Time // paused
	grown       time.Time
	used        int // messages sent since the rate last grew
	fails       int // in a row
	lived       time.Time
	blame       blame
}

// counted is a message that has left and that the provider may still count.
type counted struct {
	seq            uint64 // of its request
	left, answered time.Time
}

// New makes the pacer of a scope whose provider accepts most messages a second; 0: unknown.
func New(most float64, now time.Time) *Pacer {
	p := Fixed(most, now)
	if most == 0 {
		p.rate, p.slow = startRate, true
		return p
	}
	p.rate, p.cap = most*underCap, most*underCap
	switch {
	case most >= 1 && most <= maxCounted:
		p.counts = make([]counted, int(most))
	case p.cap > startRate: // a provider may have a lower limit for new senders
		p.rate, p.slow = startRate, true
	}
	return p
}

// Fixed makes a pacer with a rate that a user has set and no provider enforces.
func Fixed(rate float64, now time.Time) *Pacer {
	return &Pacer{cap: rate, rate: rate, grown: now, tat: now, lived: now}
}

// gap is the time between two messages.
func (p *Pacer) gap() time.Duration {
	gap := time.Duration(float64(time.Second) / p.rate)
	if p.blame.probing {
		return max(gap, probeGap)
	}
	return gap
}

// Slot reserves the time at which the next message may leave. If that is more than patience after now, it reserves none and returns false.
func (p *Pacer) Slot(now time.Time, patience time.Duration) (at time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grow(now)
	gap, lost := p.gap(), makeUp // lost limits the lost time that the schedule makes up
	if p.cap == 0 {
		lost = timerSlack
	}
	at = p.tat
	if earliest := now.Add(-max(gap/2, lost)); at.Before(earliest) {
		at = earliest
	}
	next := at.Add(gap)
	if at.Before(now) {
		at = now
	}
	if at.Before(p.until) {
		at, next = p.until, p.until.Add(gap)
	}
	if at.Sub(now) > patience {
		return at, false
	}
	p.tat = next
	p.used++
	return at, true
}

// Depart asks for a request to leave now that the provider counts as n messages. If the provider could still count too many within a
// second, Depart returns the wait before the next call; otherwise it counts the messages, and seq identifies the request for Answered.
func (p *Pacer) Depart(now time.Time, n int) (seq uint64, wait time.Duration) {
	if p.counts == nil {
		return 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > 1 {
		return p.leaveFirst(now, n) // single messages would take each place as it becomes free
	}
	if now.Before(p.passing) {
		return 0, min(p.passing.Sub(now), askAgain)
	}
	return p.leave(now, n)
}

func (p *Pacer) leave(now time.Time, n int) (seq uint64, wait time.Duration) {
	n = min(n, len(p.counts))
	free, next := 0, time.Time{} // places free now, and when the next one is
	for i := range p.counts {
		if at := p.free(&p.counts[i]); !at.After(now) {
			free++
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if free < n {
		if p.tat.Before(next) {
			p.tat = next // no more are begun meanwhile
		}
		return 0, min(next.Sub(now), askAgain)
	}
	p.seq++
	p.tat = p.tat.Add(time.Duration(n-1) * p.gap())
	for i := 0; n > 0; i++ {
		if c := &p.counts[i]; !p.free(c).After(now) {
			*c = counted{seq: p.seq, left: now}
			n--
		}
	}
	return p.seq, 0
}

// free returns the time from which the provider no longer counts a message.
func (p *Pacer) free(c *counted) time.Time {
	switch {
	case c.left.IsZero():
		return time.Time{}
	case c.answered.IsZero():
		return c.left.Add(unanswered)
	}
	return c.answered.Add(counting - time.Duration(transit*float64(p.quick)))
}

// Answered records when a request's answer arrived.
func (p *Pacer) Answered(seq uint64, now time.Time) {
	if p.counts == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.counts {
		c := &p.counts[i]
		if c.seq != seq || c.left.IsZero() {
			continue
		}
		c.answered = now
		if took := max(now.Sub(c.left), 1); p.quick == 0 || took < p.quick {
			p.quick = took
		}
	}
}

// Stopped takes back a reserved slot if a pause now covers it, and reports whether it did.
func (p *Pacer) Stopped(slot, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.until.After(now) || !p.until.After(slot) {
		return false
	}
	p.tat = p.tat.Add(-p.gap())
	p.used--
	return true
}

// Paused returns the time until which nothing may leave; yes reports whether it lies ahead.
func (p *Pacer) Paused(now time.Time) (until time.Time, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until, p.until.After(now)
}

// Book returns the time of another try for a message that found no slot. Bookings follow each other a little faster than the rate, which
// may grow meanwhile: messages that return too early wait again; if too few returned, slots would stay empty.
func (p *Pacer) Book(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.tat
	if first.Before(p.until) {
		first = p.until
	}
	if first.Before(now) {
		first = now
	}
	if p.booked.Before(first) {
		p.booked = first
	}
	gap := p.bookGap()
	p.booked = p.booked.Add(gap)
	if p.blame.probing {
		// Chance picks the messages that probe: endpoints that were created together may be sick together.
		p.drawn++
		return p.booked.Add(gap * time.Duration(p.drawn*37%drawnFrom))
	}
	return p.booked
}

// bookGap is the time between two bookings.
func (p *Pacer) bookGap() time.Duration {
	rate := p.cap
	if rate == 0 {
		rate = 2 * p.rate
	}
	return time.Duration(float64(time.Second) / rate)
}

// Alive reports whether the scope has worked since a message was first tried: if it has, the message fails for reasons of its own.
func (p *Pacer) Alive(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fails == 0 && p.lived.After(since) && !p.blame.judged.After(since)
}
