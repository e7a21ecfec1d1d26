package campaign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/push"
)

const (
	// recallPage is how many deliveries one step of a recall looks at.
	recallPage = 500
	// recallGroup is how many are handed to a sender at once; Telegram deletes up to 100 messages a call.
	recallGroup = 100
	// recallTries is how often a recall is tried that fails for a passing reason.
	recallTries = 4
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

// page recalls a page of deliveries, grouped by channel.
func (r *recaller) page(ctx context.Context, sent []Target) ([]RecallResult, error) {
	results := make([]RecallResult, len(sent))
	byChannel := make(map[push.Channel][]int)
	for i := range sent {
		results[i] = RecallResult{Row: sent[i].Row, Channel: sent[i].Channel}
		switch t := &sent[i]; {
		case t.Left:
			results[i].Detail = "the subscriber has left"
		case t.Disabled != "":
			results[i].Detail = "the endpoint is disabled: " + t.Disabled
		case t.Outcome == Unknown && !policies[t.Channel].resend:
			results[i].Detail = "nobody knows whether it arrived, or under which name"
		default:
			byChannel[t.Channel] = append(byChannel[t.Channel], i)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for ch, at := range byChannel {
		able, why := r.able(ctx, ch)
		for len(at) > 0 {
			group := at[:min(len(at), recallGroup)]
			at = at[len(group):]
			if able == nil {
				for _, i := range group {
					results[i].Detail = why
				}
				continue
			}
			g.Go(func() error { return r.group(ctx, able, sent, group, results) })
		}
	}
	return results, g.Wait()
}

// able returns the channel's sender if it can take messages back, or why not.
func (r *recaller) able(ctx context.Context, ch push.Channel) (push.Sender, string) {
	sender := r.senders[ch]
	if sender == nil {
		var err error
		if sender, err = r.s.cfg.Senders.Sender(ctx, r.c.App, ch); err != nil {
			return nil, err.Error()
		}
		r.senders[ch] = sender
	}
	if _, ok := sender.(push.Recaller); !ok {
		return nil, fmt.Sprintf("channel %s cannot take messages back", ch)
	}
	return sender, ""
}

// group recalls deliveries together, those that fail for a passing reason again.
func (r *recaller) group(ctx context.Context, sender push.Sender, sent []Target, group []int, results []RecallResult) error {
	for try := 1; len(group) > 0; try++ {
		batch := make([]push.Sent, len(group))
		for i, at := range group {
			batch[i] = r.sent(&sent[at])
			if err := r.turn(ctx, sender, &sent[at]); err != nil {
				return err
			}
		}
		errs := sender.(push.Recaller).Recall(r.hard, batch)
		var left []int
		pause := backoff(try, sent[group[0]].Row)
		for i, at := range group {
			var err error = &push.UnknownError{Reason: "the channel said nothing of it"}
			if i < len(errs) {
				err = errs[i]
			}
			if err == nil {
				results[at].Done = true
				continue
			}
			results[at].Detail = err.Error()
			if after, passing := r.passing(sender, &sent[at], err); passing && try < recallTries {
				left, pause = append(left, at), max(pause, after)
			}
		}
		if group = left; len(group) > 0 && !wait(ctx, pause) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// passing reports whether a failed recall is worth another try, after how long.
func (r *recaller) passing(sender push.Sender, t *Target, err error) (after time.Duration, yes bool) {
	var retry *push.RetryError
	var unknown *push.UnknownError
	switch {
	case errors.As(err, &retry):
		if retry.Credential {
			pace := paceOf(sender, t)
			if retry.Scope != "" {
				pace = push.Pace{Scope: retry.Scope}
			}
			now := r.s.cfg.Now()
			r.s.pacers.of(scope{app: r.c.App, ch: t.Channel, name: pace.Scope}, pace, now).objected(now, retry.After)
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

// turn waits until a recall may leave. Where one call takes many messages back they need no turn each: the sender's
// provider counts calls, and asks to wait when there are too many.
func (r *recaller) turn(ctx context.Context, sender push.Sender, t *Target) error {
	if t.Channel == push.Telegram {
		return nil
	}
	pace := paceOf(sender, t)
	now := r.s.cfg.Now()
	at, _ := r.s.pacers.of(scope{app: r.c.App, ch: t.Channel, name: pace.Scope}, pace, now).slot(now, forever)
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
