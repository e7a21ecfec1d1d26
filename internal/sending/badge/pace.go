package badge

import (
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/timeheap"
	"godwit.dev/godwit/internal/sending/push"
)

// address is a recipient of an app.
type address struct{ app, recipient string }

// pace decides when a recipient's devices may get a message.
type pace struct {
	mu    sync.Mutex
	known map[address]*turn
	queue timeheap.Heap[*turn]
	wake  chan struct{}
}

// turn is a recipient that waits for a message, or has got some lately.
type turn struct {
	timeheap.Entry // when it is looked at: to tell, or to forget it
	address
	wants bool      // something is to be told
	busy  bool      // its devices are being told
	full  time.Time // when atOnce messages may be sent again
}

func newPace() pace { return pace{known: make(map[address]*turn), wake: make(chan struct{}, 1)} }

// want notes that a recipient's devices are to be told. False: too many recipients wait.
func (p *pace) want(who address, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.of(who, now)
	if t == nil {
		return false
	}
	if !t.wants {
		t.wants, t.At = true, now.Add(settle)
		if earliest := t.full.Add(-(atOnce - 1) * every); earliest.After(t.At) {
			t.At = earliest
		}
		p.moved(t)
	}
	return true
}

// spent notes that a recipient's devices got a message from another node.
func (p *pace) spent(who address, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.of(who, now); t != nil {
		p.spend(t, now)
	}
}

// of returns a recipient's turn. p.mu is held.
func (p *pace) of(who address, now time.Time) *turn {
	t := p.known[who]
	if t == nil && len(p.known) < maxKnown {
		t = &turn{Entry: timeheap.Entry{At: now}, address: who, full: now}
		p.known[who] = t
	}
	return t
}

// spend counts a message. p.mu is held.
func (p *pace) spend(t *turn, now time.Time) {
	if now.After(t.full) {
		t.full = now
	}
	if t.full = t.full.Add(every); !t.wants {
		t.At = t.full
	} else if earliest := t.full.Add(-(atOnce - 1) * every); earliest.After(t.At) {
		t.At = earliest
	}
	p.moved(t)
}

// moved puts a turn to its place in the queue. p.mu is held.
func (p *pace) moved(t *turn) {
	p.queue.Put(t)
	if t.IsFirst() {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// next takes a recipient whose turn it is, and counts its message. none: wait is the time until the next one.
func (p *pace) next(now time.Time) (who address, wait time.Duration, none bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t, some := p.queue.First(); some; t, some = p.queue.First() {
		if wait := t.At.Sub(now); wait > 0 {
			return who, wait, true
		}
		switch {
		case t.busy: // an older number must not come after a newer one
			t.At = now.Add(settle)
			p.queue.Put(t)
		case t.wants:
			t.wants, t.busy = false, true
			p.spend(t, now)
			return t.address, 0, false
		default:
			p.queue.Pop()
			delete(p.known, t.address)
		}
	}
	return who, every, true
}

// done says that the devices of a recipient, which next has returned, were told.
func (p *pace) done(who address) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[who].busy = false
}

// rests are the channels that are left alone.
type rests struct {
	mu    sync.Mutex
	until map[place]time.Time
}

type place struct {
	app     string
	channel push.Channel
}

func (r *rests) begin(app string, ch push.Channel, now time.Time, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = make(map[place]time.Time)
	}
	r.until[place{app, ch}] = now.Add(d)
}

func (r *rests) on(app string, ch push.Channel, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.until[place{app, ch}])
}
