package campaign

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/dispatch"
	"godwit.dev/godwit/internal/push"
)

const (
	// recallPage is how many deliveries one step of a recall looks at.
	recallPage = 500
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
	r := &recaller{s: s, c: c, t: t, senders: make(map[push.Channel]push.Sender)}
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
		if err := s.store.FinishRecall(context.WithoutCancel(ctx), t.own.epoch, c.Num, results, next, now); err != nil {
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
	t       *task
	senders map[push.Channel]push.Sender
}

// page recalls a page of deliveries.
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
		g.Go(func() error {
			if !r.t.own.held() {
				return errLost
			}
			failed, err := r.s.dispatch.Recall(ctx, r.t.own.hard, sender, t.Channel, r.sent(t))
			if res.Done = err == nil && failed == nil; failed != nil {
				res.Detail = failed.Error()
			}
			return err
		})
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
	case t.Outcome == Unknown && !dispatch.Resends(t.Channel):
		return nil, "nobody knows whether it arrived, or under which name"
	}
	sender := r.senders[t.Channel]
	if sender == nil {
		var err error
		if sender, err = r.s.dispatch.Sender(ctx, r.c.App, t.Channel); err != nil {
			return nil, err.Error()
		}
		r.senders[t.Channel] = sender
	}
	if _, ok := sender.(push.Recaller); !ok {
		return nil, fmt.Sprintf("channel %s cannot take messages back", t.Channel)
	}
	return sender, ""
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
