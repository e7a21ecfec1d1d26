package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/sending/judge"
	"godwit.dev/godwit/internal/sending/push"
)

// attempt is one sending of a delivery, for a worker.
type attempt struct {
	delivery *Delivery
	sender   push.Sender
}

// start passes an attempt to a free worker, or to a new one if none is free. There are never more workers than the sender has places in
// flight. Workers stay: encryption needs large stacks, and growing one takes a new worker much of its time.
func (l *channelSender) start(a attempt) {
	select {
	case l.attempts <- a:
	default:
		l.workers.Go(func() {
			l.deliver(a.delivery, a.sender)
			for a := range l.attempts {
				l.deliver(a.delivery, a.sender)
			}
		})
	}
}

// deliver makes one attempt and passes its result to the writer.
func (l *channelSender) deliver(d *Delivery, sender push.Sender) {
	now := l.d.now()
	if d.First.IsZero() {
		d.First = now
	}
	ctx, cancel := context.WithTimeoutCause(l.job.hard, l.policy.Timeout, fmt.Errorf("no answer in %s", l.policy.Timeout))
	defer cancel()
	req := l.backlog.Request(d, now)
	if l.d.badge != nil && req.Recipient != "" {
		req.Badge = l.d.badge(ctx, req.App, req.Recipient, l.channel)
	}
	t := d.scope.depart(ctx, d.EndpointID, l.weigh(d, &req.Content, sender, now))
	if held := l.job.work.Held; held != nil && !held() {
		now = l.d.now()
		d.scope.Pacer.Answered(t.seq, now)
		d.scope.Leave()
		l.job.results <- landed{Result: d.again(now), of: l} // not sent: the new owner may send it
		return
	}
	receipt, err := l.send(ctx, sender, &req, d)
	now = l.d.now()
	d.scope.Pacer.Answered(t.seq, now)
	res := l.judge(d, req.ExpiresAt, receipt, err, t, now)
	d.scope.Leave()
	l.job.results <- landed{Result: res, of: l}
}

// weigh returns the number of messages that the provider counts. For an album, it also reserves that many intervals of the chat.
func (l *channelSender) weigh(d *Delivery, c *push.Content, sender push.Sender, now time.Time) int {
	w, ok := sender.(push.Weigher)
	if !ok {
		return 1
	}
	n := w.Weight(c)
	if p, ok := sender.(push.Pacer); ok && n > 1 {
		if limits := p.Pace(d.Address); limits.Chat != "" {
			l.d.paces.SentTo(d.scope.chat(limits), now, time.Duration(n)*limits.Every)
		}
	}
	return n
}

// send sends a request, and adds a span if the notification is traced.
func (l *channelSender) send(ctx context.Context, sender push.Sender, req *push.Request, d *Delivery) (push.Receipt, error) {
	if l.d.tracer == nil || req.GodwitID == "" {
		return sender.Send(ctx, *req)
	}
	done := l.d.tracer.Pushing(req.App, req.Recipient, req.GodwitID, string(d.Channel), d.Attempts+1)
	receipt, err := sender.Send(ctx, *req)
	if done != nil {
		done(err)
	}
	return receipt, err
}

// judge decides, from an attempt's result, the state of the delivery and of its scope.
func (l *channelSender) judge(d *Delivery, until time.Time, receipt push.Receipt, err error, t try, now time.Time) Result {
	s := d.scope
	d.Attempts++
	var retry *push.RetryError
	var gone *push.GoneError
	var permanent *push.PermanentError
	var config *push.ConfigError
	var objection *push.ObjectionError
	var moved *push.MovedError
	switch {
	case err == nil:
		s.Succeeded(t.Try, now)
		s.Took(now)
		res := d.ends(Accepted, "")
		res.External, res.Address = receipt.ExternalID, receipt.Address
		return res
	case errors.As(err, &retry):
		return l.retry(d, until, retry, t, now)
	case errors.As(err, &gone):
		s.answered(t, now)
		return d.gone(gone)
	case errors.As(err, &permanent):
		s.answered(t, now)
		return d.ends(Refused, permanent.Reason)
	case errors.As(err, &config):
		return l.stop(d, config.Scope, config.Reason)
	case errors.As(err, &moved):
		s.answered(t, now)
		if d.Attempts >= maxTries { // the endpoint moved each time, perhaps in a circle
			return d.ends(Refused, moved.Reason)
		}
		// The backlog may already have an endpoint with the new address. Then this endpoint ends, and its delivery with it.
		res := d.later(now, until, moved.Reason)
		res.Address = moved.Address
		return res
	case errors.As(err, &objection):
		return l.objected(d, until, objection, t, now)
	}
	s.Silent()
	return l.unknown(d, until, err, now)
}

// gone ends a delivery whose endpoint no longer exists.
func (d *Delivery) gone(e *push.GoneError) Result {
	// The endpoint does not exist, so no earlier attempt can have arrived either.
	d.Unsure = false
	res := d.ends(Refused, e.Reason)
	res.Disable, res.Since = e.Reason, e.Since
	if res.Disable == "" {
		res.Disable = "gone"
	}
	return res
}

// stop holds this delivery and all later ones, because the credential was refused.
func (l *channelSender) stop(d *Delivery, scope, reason string) Result {
	d.scope.block(scope, reason)
	l.refusal.Store(&reason)
	d.Attempts--
	return d.held(reason)
}

// objected handles a refusal whose cause is either this delivery alone or all endpoints. The delivery ends, or waits until the results of
// other endpoints show which it is.
func (l *channelSender) objected(d *Delivery, until time.Time, e *push.ObjectionError, t try, now time.Time) Result {
	s := d.scope.named(e.Scope, now)
	if s.refused != "" { // only the answer shows the scope: it is a part of the credential, such as FCM's for Apple
		return l.stop(d, e.Scope, s.refused)
	}
	m := judge.Message{Party: party(d), Left: t.Left, First: d.First, Tries: d.Attempts}
	switch s.Case.Objected(m, judge.Objection{Ended: e.Ended, Host: e.Shared == push.Host}, now) {
	case judge.Shared:
		return l.stop(d, e.Scope, e.Reason)
	case judge.Address:
		s.Succeeded(t.Try, now)
		if e.Ended {
			return d.gone(&push.GoneError{Reason: e.Reason})
		}
		return d.ends(Refused, e.Reason)
	}
	if d.Attempts >= maxTriesInTrouble {
		return d.ends(Refused, fmt.Sprintf("gave up after %d attempts: %s", d.Attempts, e.Reason))
	}
	return d.later(s.opens(now).Add(backoff(d.Attempts, d.Row)), until, e.Reason)
}

// retry postpones a message that was certainly not accepted.
func (l *channelSender) retry(d *Delivery, until time.Time, e *push.RetryError, t try, now time.Time) Result {
	d.scope.Case.Answered()
	s := d.scope.objected(e, t, now)
	tries := maxTries
	if e.Credential || e.After > 0 || !s.Alive(d.First) {
		tries = maxTriesInTrouble
	}
	if d.Attempts >= tries {
		return d.ends(Refused, fmt.Sprintf("gave up after %d attempts: %s", d.Attempts, e.Reason))
	}
	var due time.Time
	if e.Credential {
		due = s.book(now) // the scope's schedule decides
	} else if due = s.opens(now).Add(backoff(d.Attempts, d.Row)); due.Before(now.Add(e.After)) {
		due = now.Add(e.After)
	}
	return d.later(due, until, e.Reason)
}

// unknown ends an attempt that may have arrived. If the channel lets a second message replace the first, the message is sent again;
// otherwise it waits for a person.
func (l *channelSender) unknown(d *Delivery, until time.Time, err error, now time.Time) Result {
	d.Unsure = true
	reason := err.Error()
	if !l.policy.Resend || d.Attempts >= maxUnsure {
		return Result{Row: d.Row, Channel: d.Channel, Outcome: Unknown, Detail: reason, Attempts: d.Attempts, Unsure: true}
	}
	return d.later(now.Add(backoff(d.Attempts, d.Row)), until, reason)
}

// later postpones a delivery to another attempt, unless the delivery expires before it.
func (d *Delivery) later(due, until time.Time, reason string) Result {
	if !due.Before(until) {
		return d.ends(Expired, "no time is left for another attempt: "+reason)
	}
	res := d.again(due)
	res.Detail = reason
	return res
}
