package dispatch

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/pace"
	"godwit.dev/godwit/internal/push"
)

// This file is all that knows of package pace, but for the Dispatcher that holds the scopes.

// scope is what a delivery is paced with: a credential, or a credential at one origin.
type scope struct {
	d     *Dispatcher
	key   pace.Scope
	pacer *pace.Pacer
}

func (d *Dispatcher) scope(app string, ch push.Channel, limits push.Pace, now time.Time) scope {
	key := pace.Scope{App: app, Channel: ch, Name: limits.Scope}
	return scope{d: d, key: key, pacer: d.paces.Of(key, limits, now)}
}

func (l *lane) scope(limits push.Pace, now time.Time) scope {
	return l.d.scope(l.job.work.App, l.channel, limits, now)
}

// named is another scope of the same app and channel; s itself if it has no name of its own.
func (s scope) named(name string, now time.Time) scope {
	if name == "" {
		return s
	}
	return s.d.scope(s.key.App, s.key.Channel, push.Pace{Scope: name}, now)
}

// depart waits until the provider cannot count too many if one more leaves. seq names it for answered.
func (s scope) depart(ctx context.Context) (seq uint64) {
	seq, late := s.pacer.Depart(s.d.now())
	for late > 0 && wait(ctx, late) {
		seq, late = s.pacer.Depart(s.d.now())
	}
	return seq
}

// answered notes the answer to a message. Whoever has moved was told so at the old address first: that is one more.
func (s scope) answered(seq uint64, r push.Receipt, now time.Time) {
	s.pacer.Answered(seq, now, r.Address != nil)
}

// succeeded notes that the scope works.
func (s scope) succeeded(now time.Time) { s.pacer.Succeeded(now) }

// alive reports whether the scope has worked since a message was first tried: that it fails is then its own trouble.
func (s scope) alive(since time.Time) bool { return s.pacer.Alive(since) }

// objected notes that a provider wants a whole scope to wait, and returns which.
func (s scope) objected(e *push.RetryError, now time.Time) scope {
	s = s.named(e.Scope, now)
	s.pacer.Objected(now, e.After)
	return s
}

// refused stops the scope whose credential was refused, until Unblock.
func (s scope) refused(e *push.ConfigError) {
	s.d.paces.Block(pace.Scope{App: s.key.App, Channel: s.key.Channel, Name: e.Scope}, e.Reason)
}

// book says when to look again at a message that found no turn.
func (s scope) book(now time.Time) time.Time { return s.pacer.Book(now) }

// rate is one that a source wishes for, which no provider counts.
type rate struct{ pacer *pace.Pacer }

func newRate(perSecond float64, now time.Time) *rate { return &rate{pace.Fixed(perSecond, now)} }

// next gives out the moment at which the next message may leave.
func (r *rate) next(now time.Time) time.Time {
	at, _ := r.pacer.Slot(now, forever)
	return at
}

// turn is when a message may leave.
type turn struct {
	scope scope
	at    time.Time
}

// turn finds the moment that all limits allow. Not ok: that is too far off, and the result says when to look again.
func (l *lane) turn(d *Delivery, now time.Time) (turn, Result, bool) {
	if l.pacer != nil {
		d.pace = l.pacer.Pace(d.Address)
	}
	limits := d.pace
	s := l.scope(limits, now)
	if why := l.d.paces.Refused(s.key); why != "" {
		l.refusal.Store(&why)
		return turn{}, d.held(), false
	}
	chat := pace.Scope{App: s.key.App, Channel: s.key.Channel, Name: limits.Scope + "\n" + limits.Chat}
	if limits.Chat != "" {
		if at, ok := l.d.paces.Chat(chat, now); !ok {
			return turn{}, d.again(at), false
		}
	}
	patience := patience
	if l.policy.solo {
		patience = forever
	}
	at, ok := s.pacer.Slot(now, patience)
	if !ok {
		return turn{}, d.again(s.book(now)), false
	}
	if l.job.rate != nil {
		if own := l.job.rate.next(now); own.After(at) {
			at = own
		}
	}
	if limits.Chat != "" {
		l.d.paces.SentTo(chat, at, limits.Every)
	}
	return turn{scope: s, at: at}, Result{}, true
}

// put gives the turn back if its scope has been paused until after it.
func (t turn) put(now time.Time) bool {
	until, paused := t.scope.pacer.Paused(now)
	if !paused || !until.After(t.at) {
		return false
	}
	t.scope.pacer.Put()
	return true
}

// reach waits for a turn in the scope, however far off; false: ctx has ended.
func (s scope) reach(ctx context.Context) bool {
	now := s.d.now()
	at, _ := s.pacer.Slot(now, forever)
	return wait(ctx, at.Sub(now))
}
