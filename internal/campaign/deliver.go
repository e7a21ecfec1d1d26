package campaign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/pace"
	"godwit.dev/godwit/internal/push"
)

// job is one attempt to be made.
type job struct {
	target *Target
	sender push.Sender
}

// start has an attempt made, by a worker that is free or else by another one: there are never more than the lane has
// places in flight. Workers stay, since their stacks have grown as far as encrypting needs, which takes a new one a
// good part of its time.
func (l *lane) start(j job) {
	select {
	case l.jobs <- j:
	default:
		l.workers.Go(func() {
			l.deliver(j.target, j.sender)
			for j := range l.jobs {
				l.deliver(j.target, j.sender)
			}
		})
	}
}

// finish waits for the attempts under way, after the last was started.
func (l *lane) finish() {
	close(l.jobs)
	l.workers.Wait()
}

// deliver makes one attempt and hands its result to the writer.
func (l *lane) deliver(t *Target, sender push.Sender) {
	now := l.r.s.cfg.Now()
	if t.First.IsZero() {
		t.First = now
	}
	ctx, cancel := context.WithTimeoutCause(l.r.t.hard, l.policy.timeout, fmt.Errorf("no answer in %s", l.policy.timeout))
	defer cancel()
	req := l.r.request(t, now)
	p := l.r.s.pacers.Of(pace.Scope{App: l.r.c.App, Channel: l.ch, Name: t.pace.Scope}, t.pace, now)
	seq, late := p.Depart(l.r.s.cfg.Now())
	for late > 0 && wait(ctx, late) {
		seq, late = p.Depart(l.r.s.cfg.Now())
	}
	receipt, err := sender.Send(ctx, req)
	now = l.r.s.cfg.Now()
	p.Answered(seq, now, receipt.Address != nil) // who has moved was told so at the old address first
	res := l.judge(t, receipt, err, p, now)
	l.r.results <- landed{Result: res, lane: l}
}

// judge says what an attempt's end means for the delivery, and for the scope it was sent in.
func (l *lane) judge(t *Target, receipt push.Receipt, err error, p *pace.Pacer, now time.Time) Result {
	t.Attempts++
	var retry *push.RetryError
	var gone *push.GoneError
	var permanent *push.PermanentError
	var config *push.ConfigError
	switch {
	case err == nil:
		p.Succeeded(now)
		res := t.ends(Accepted, "")
		res.External, res.Address = receipt.ExternalID, receipt.Address
		return res
	case errors.As(err, &retry):
		return l.retry(t, retry, p, now)
	case errors.As(err, &gone):
		p.Succeeded(now)
		// Nobody is there: an earlier attempt cannot have been seen either.
		t.Unsure = false
		res := t.ends(Refused, gone.Reason)
		res.Disable = gone.Reason
		if res.Disable == "" {
			res.Disable = "gone"
		}
		return res
	case errors.As(err, &permanent):
		p.Succeeded(now)
		return t.ends(Refused, permanent.Reason)
	case errors.As(err, &config):
		l.r.s.pacers.Block(pace.Scope{App: l.r.c.App, Channel: l.ch, Name: config.Scope}, config.Reason)
		l.refusal.Store(&config.Reason)
		t.Attempts--
		return held(t)
	}
	return l.unknown(t, err, now)
}

// retry puts off a message that was certainly not taken.
func (l *lane) retry(t *Target, e *push.RetryError, p *pace.Pacer, now time.Time) Result {
	if e.Credential {
		if e.Scope != "" {
			p = l.r.s.pacers.Of(pace.Scope{App: l.r.c.App, Channel: l.ch, Name: e.Scope}, push.Pace{}, now)
		}
		p.Objected(now, e.After)
	}
	tries := maxTries
	if e.Credential || e.After > 0 || !p.Alive(t.First) {
		tries = maxTriesInTrouble
	}
	if t.Attempts >= tries {
		return t.ends(Refused, fmt.Sprintf("gave up after %d attempts: %s", t.Attempts, e.Reason))
	}
	due := now.Add(max(e.After, backoff(t.Attempts, t.Row)))
	if e.Credential {
		due = p.Book(now) // it is the scope's turn that counts
	}
	return l.later(t, due, e.Reason, now)
}

// unknown is the end of an attempt that may have arrived. Where the channel lets a second message replace the first
// it is sent again; otherwise it waits for a person.
func (l *lane) unknown(t *Target, err error, now time.Time) Result {
	t.Unsure = true
	reason := err.Error()
	if !l.policy.resend || t.Attempts >= maxUnsure {
		return Result{Row: t.Row, Channel: t.Channel, Outcome: Unknown, Detail: reason, Attempts: t.Attempts, Unsure: true}
	}
	return l.later(t, now.Add(backoff(t.Attempts, t.Row)), reason, now)
}

// later is another attempt, unless the delivery's time is over by then.
func (l *lane) later(t *Target, due time.Time, reason string, now time.Time) Result {
	if !due.Before(l.r.expires(t, now)) {
		return t.ends(Expired, "no time is left for another attempt: "+reason)
	}
	res := again(t, due)
	res.Detail = reason
	return res
}
