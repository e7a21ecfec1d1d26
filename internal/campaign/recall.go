package campaign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/pace"
	"godwit.dev/godwit/internal/push"
)

const (
	// recallPage is how many deliveries one step of a recall looks at.
	recallPage = 500
	// recallTries is how often a recall is tried that fails for a passing reason.
	recallTries = 4
	// recallsInFlight is how many are under way at once: with their answers a second away, what a chat service lets through.
	recallsInFlight = 32
)

// recall takes back what was accepted. It may do some of it twice after a crash, which is harmless: what is gone stays
// gone.
func (s *Service) recall(ctx context.Context, c *Campaign, t *task) error {
	c, err := s.store.Get(ctx, c.App, c.ID)
	if err != nil {
		return err
	}
	if err := s.sweep(ctx, c, Sweep{From: Pending, To: Suppressed, Detail: "recalled before it was sent"}); err != nil {
		return err
	}
	r := &recaller{s: s, c: c, hard: t.hard, senders: make(map[push.Channel]push.Sender)}
	for {
		sent, next, err := s.store.Recallable(ctx, c.Num, c.Recall, recallPage)
		if err != nil {
			return err
		}
		results, err := r.page(ctx, sent)
		if err != nil {
			return err
		}
		now := s.cfg.Now()
		if err := s.store.FinishRecall(context.WithoutCancel(ctx), s.epoch, c.Num, results, next, now); err != nil {
			return err
		}
		t.meter.add(now, len(results))
		if next == 0 {
			return s.end(ctx, c, Recalling, RecallDone, "")
		}
		if c.Recall = next; ctx.Err() != nil {
			return nil
		}
	}
}

// recaller takes one campaign's messages back.
type recaller struct {
	s       *Service
	c       *Campaign
	hard    context.Context
	senders map[push.Channel]push.Sender
}

// page recalls a page of deliveries, each in its turn: most providers count calls, and a campaign has one message a chat.
func (r *recaller) page(ctx context.Context, sent []Target) ([]RecallResult, error) {
	results := make([]RecallResult, len(sent))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(recallsInFlight)
	for i := range sent {
		t, res := &sent[i], &results[i]
		*res = RecallResult{Row: t.Row, Channel: t.Channel}
		sender, why := r.able(ctx, t)
		if sender == nil {
			res.Detail = why
			continue
		}
		if err := r.turn(ctx, sender, t); err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		g.Go(func() error { return r.one(ctx, sender, t, res) })
	}
	return results, g.Wait()
}

// able returns the sender that can take a message back, or why there is none.
func (r *recaller) able(ctx context.Context, t *Target) (push.Sender, string) {
	switch {
	case t.Left:
		return nil, "the subscriber has left"
	case t.Disabled != "":
		return nil, "the endpoint is disabled: " + t.Disabled
	case t.Outcome == Unknown && !policies[t.Channel].resend:
		return nil, "nobody knows whether it arrived, or under which name"
	}
	sender := r.senders[t.Channel]
	if sender == nil {
		var err error
		if sender, err = r.s.cfg.Senders.Sender(ctx, r.c.App, t.Channel); err != nil {
			return nil, err.Error()
		}
		r.senders[t.Channel] = sender
	}
	if _, ok := sender.(push.Recaller); !ok {
		return nil, fmt.Sprintf("channel %s cannot take messages back", t.Channel)
	}
	return sender, ""
}

// one recalls a message, again if it fails for a passing reason.
func (r *recaller) one(ctx context.Context, sender push.Sender, t *Target, res *RecallResult) error {
	for try := 1; ; try++ {
		err := r.attempt(sender, t)
		if err == nil {
			res.Done, res.Detail = true, ""
			return nil
		}
		res.Detail = err.Error()
		after, passing := r.passing(sender, t, err)
		if !passing || try == recallTries {
			return nil
		}
		if !wait(ctx, max(after, backoff(try, t.Row))) {
			return context.Cause(ctx)
		}
		if err := r.turn(ctx, sender, t); err != nil {
			return err
		}
	}
}

func (r *recaller) attempt(sender push.Sender, t *Target) error {
	ctx, cancel := context.WithTimeoutCause(r.hard, policies[t.Channel].timeout, fmt.Errorf("no answer in %s", policies[t.Channel].timeout))
	defer cancel()
	errs := sender.(push.Recaller).Recall(ctx, []push.Sent{r.sent(t)})
	if len(errs) != 1 {
		return &push.UnknownError{Reason: "the channel said nothing of it"}
	}
	return errs[0]
}

// passing reports whether a failed recall is worth another try, after how long.
func (r *recaller) passing(sender push.Sender, t *Target, err error) (after time.Duration, yes bool) {
	var retry *push.RetryError
	var unknown *push.UnknownError
	switch {
	case errors.As(err, &retry):
		if retry.Credential {
			limits := paceOf(sender, t)
			if retry.Scope != "" {
				limits = push.Pace{Scope: retry.Scope}
			}
			now := r.s.cfg.Now()
			r.s.pacers.Of(pace.Scope{App: r.c.App, Channel: t.Channel, Name: limits.Scope}, limits, now).Objected(now, retry.After)
		}
		return retry.After, true
	case errors.As(err, &unknown):
		return 0, true
	}
	return 0, false
}

func paceOf(sender push.Sender, t *Target) push.Pace {
	if p, ok := sender.(push.Pacer); ok {
		return p.Pace(t.Address)
	}
	return push.Pace{}
}

// turn waits until a recall may leave.
func (r *recaller) turn(ctx context.Context, sender push.Sender, t *Target) error {
	limits := paceOf(sender, t)
	now := r.s.cfg.Now()
	at, _ := r.s.pacers.Of(pace.Scope{App: r.c.App, Channel: t.Channel, Name: limits.Scope}, limits, now).Slot(now, forever)
	if !wait(ctx, at.Sub(now)) {
		return context.Cause(ctx)
	}
	return nil
}

// sent is what is to be taken back, as it was sent.
func (r *recaller) sent(t *Target) push.Sent {
	id := DeliveryID(r.c.ID, t.EndpointID.String())
	return push.Sent{
		Request: push.Request{
			ID: id, App: r.c.App, Endpoint: t.EndpointID.String(), Recipient: t.Recipient, Address: t.Address,
			Urgency: r.c.Spec.Urgency(), Collapse: r.c.Spec.Collapse, ExpiresAt: r.s.cfg.Now().Add(r.c.Spec.Life()),
		},
		ExternalID: t.External, At: t.At,
	}
}
