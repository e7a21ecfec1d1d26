package dispatch

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/sending/judge"
	"godwit.dev/godwit/internal/sending/pace"
	"godwit.dev/godwit/internal/sending/push"
)

// Only this file uses package pace, except that the Dispatcher holds the scopes, and the cases their keys.

// scope is the unit of pacing: a credential, or a credential at one origin. Urgent deliveries have priority in it.
type scope struct {
	*pace.Pacer
	*judge.Case
	d      *Dispatcher
	key    pace.Scope
	urgent bool
	// refused is the provider's reason for refusing the credential, after which nothing may be sent; empty: it was not refused.
	refused string
}

func (d *Dispatcher) scope(app string, ch push.Channel, limits push.Pace, now time.Time) scope {
	key := pace.Scope{App: app, Channel: ch, Name: limits.Scope}
	pacer, refused := d.paces.Of(key, limits, now)
	return scope{Pacer: pacer, Case: d.cases.of(key), d: d, key: key, refused: refused}
}

// named returns another scope of the same app and channel, or s itself if name is empty.
func (s scope) named(name string, now time.Time) scope {
	if name == "" {
		return s
	}
	other := s.d.scope(s.key.App, s.key.Channel, push.Pace{Scope: name}, now)
	other.urgent = s.urgent
	return other
}

// try is an attempt, with the data that its scope needs.
type try struct {
	pace.Try
	seq uint64
}

// chat returns the scope of one chat.
func (s scope) chat(limits push.Pace) pace.Scope {
	return pace.Scope{App: s.key.App, Channel: s.key.Channel, Name: limits.Scope + "\n" + limits.Chat}
}

// depart waits until a request that counts as n messages cannot exceed the rate that the provider counts.
func (s scope) depart(ctx context.Context, endpoint audience.ID, n int) try {
	ask := s.Depart
	if s.urgent {
		ask = s.DepartFirst
	}
	now := s.d.now()
	seq, late := ask(now, n)
	for late > 0 && pause.For(ctx, late) {
		now = s.d.now()
		seq, late = ask(now, n)
	}
	return try{Try: pace.Try{Endpoint: endpoint, Left: now}, seq: seq}
}

// objected records that a provider asks for a pause of a whole scope, of the endpoint, or possibly only of the endpoint, and returns the
// scope.
func (s scope) objected(e *push.RetryError, t try, now time.Time) scope {
	s = s.named(e.Scope, now)
	switch {
	case e.Credential:
		s.Pacer.Objected(now, e.After)
	case e.Scope != "":
		s.ObjectedAt(t.Try, now, e.After)
	case e.After > 0:
		s.Rests(t.Try, now, e.After)
	}
	return s
}

// answered records an answer that concerns one message or endpoint: the scope works.
func (s scope) answered(t try, now time.Time) {
	s.Succeeded(t.Try, now)
	s.Case.Answered()
}

// opens returns when the scope's pause ends, or now if there is none.
func (s scope) opens(now time.Time) time.Time {
	if until, paused := s.Paused(now); paused {
		return until
	}
	return now
}

// block stops the scope with the refused credential, until Unblock.
func (s scope) block(name, reason string) {
	s.d.paces.Block(pace.Scope{App: s.key.App, Channel: s.key.Channel, Name: name}, reason)
}

// book returns when to try a message again that got no slot.
func (s scope) book(now time.Time) time.Time {
	if s.urgent {
		return s.BookFirst(now)
	}
	return s.Book(now)
}

// slot is a place in a scope's schedule. During the wait for it, an urgent delivery may take it.
type slot struct {
	scope scope
	opens time.Time
	held  bool
}

// slot reserves a slot. False: the next one is further off than patience.
func (s scope) slot(now time.Time, patience time.Duration) (_ slot, ok bool) {
	if s.urgent {
		at, ok := s.Urgent(now, patience)
		return slot{scope: s, opens: at}, ok
	}
	at, ok := s.Slot(now, patience)
	held := ok && at.After(now)
	if held {
		s.Hold(at)
	}
	return slot{scope: s, opens: at, held: held}, ok
}

// begin ends the wait for a slot. False: an urgent delivery has taken it.
func (t slot) begin() bool { return !t.held || t.scope.Begin(t.opens) }

// reach waits for a slot in the scope, however far off. False: ctx has ended.
func (s scope) reach(ctx context.Context) bool {
	for {
		now := s.d.now()
		t, _ := s.slot(now, forever)
		waited := pause.For(ctx, t.opens.Sub(now))
		if t.begin() || !waited {
			return waited
		}
	}
}

// rate is a rate that a backlog requests, which no provider counts.
type rate struct{ pacer *pace.Pacer }

func newRate(perSecond float64, now time.Time) *rate { return &rate{pace.Fixed(perSecond, now)} }

// next reserves the time at which the next message may be sent.
func (r *rate) next(now time.Time) time.Time {
	at, _ := r.pacer.Slot(now, forever)
	return at
}

// turn is when a delivery may be sent: its slot's time, or later if its backlog's own rate requires it.
type turn struct {
	slot
	at time.Time
}

// place is the scope in which a delivery is sent, and the chat in it.
type place struct {
	scope
	chat  pace.Scope
	every time.Duration // time between two messages to the chat; 0: there is no chat
}

// place finds a delivery's place. False: nothing may be sent there now, and the result states when to try again.
func (l *channelSender) place(d *Delivery, now time.Time) (place, Result, bool) {
	var limits push.Pace
	if l.pacer != nil {
		limits = l.pacer.Pace(d.Address)
	}
	s := l.d.scope(l.job.work.App, l.channel, limits, now)
	s.urgent = l.job.work.Urgent
	d.scope = s
	if why := s.refused; why != "" {
		l.refusal.Store(&why)
		return place{}, d.held(why), false
	}
	p := place{scope: s}
	if limits.Chat != "" {
		p.chat, p.every = s.chat(limits), limits.Every
		if at, ok := l.d.paces.Chat(p.chat, now); !ok {
			return place{}, d.again(at), false
		}
	}
	if until, rests := s.Resting(d.EndpointID, now); rests {
		return place{}, d.again(until), false
	}
	return p, Result{}, true
}

// turn finds the time that all limits allow. False: it is too far off, and the result states when to try again.
func (l *channelSender) turn(d *Delivery, p place, now time.Time) (turn, Result, bool) {
	patience := patience
	if l.policy.Solo {
		patience = forever
	}
	slot, ok := p.slot(now, patience)
	if !ok {
		return turn{}, d.again(p.book(now)), false
	}
	t := turn{slot: slot, at: slot.opens}
	if l.job.rate != nil {
		if own := l.job.rate.next(now); own.After(t.at) {
			t.at = own
		}
	}
	if p.every > 0 {
		l.d.paces.SentTo(p.chat, t.at, p.every)
	}
	return t, Result{}, true
}
