package campaign

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	// recallPage is the number of deliveries in one step of a recall or a correction.
	recallPage = 500
	// recallsInFlight is the number of simultaneous recalls or corrections: if each answer takes a second, this is the rate that a chat
	// service allows.
	recallsInFlight = 32
)

// recall withdraws accepted messages. After a crash it may repeat some of them, which is harmless: a withdrawn message
// stays withdrawn.
func (s *Service) recall(ctx context.Context, c *Campaign, t *task) error {
	c, err := s.store.Get(ctx, c.App, c.ID)
	if err != nil {
		return err
	}
	if err := s.sweep(ctx, c, Sweep{From: Pending, To: Suppressed, Detail: "recalled before it was sent"}); err != nil {
		return err
	}
	w := &walk{s: s, c: c, t: t, change: recaller{s, c}}
	if done, err := w.run(ctx); err != nil || !done {
		return err
	}
	return s.end(ctx, c, Recalling, RecallDone, "")
}

// change is the action that a walk performs on each message.
type change interface {
	// wants reports whether the action applies to messages of a channel; others stay unchanged.
	wants(ch push.Channel) bool
	// unable returns why a sender does not support the action; empty: it does.
	unable(sender push.Sender, ch push.Channel) string
	make(ctx, hard context.Context, sender push.Sender, t *Target) (failed, err error)
	finish(ctx context.Context, epoch int64, results []RecallResult, from, next int64, now time.Time) error
}

// walk processes the sent messages of one campaign in pages. The results of a page are stored together with the progress.
type walk struct {
	s       *Service
	c       *Campaign
	t       *task
	change  change
	senders map[push.Channel]push.Sender
}

// run continues at the campaign's stored progress. done reports that it has reached the end; if it is false and err is nil, ctx has ended.
func (w *walk) run(ctx context.Context) (done bool, err error) {
	w.senders = make(map[push.Channel]push.Sender)
	for {
		sent, next, err := w.s.store.Recallable(ctx, w.c.Num, w.c.Recall, recallPage)
		if err != nil {
			return false, err
		}
		results, err := w.page(ctx, sent)
		if err != nil {
			return false, err
		}
		now := w.s.cfg.Now()
		if err := w.change.finish(context.WithoutCancel(ctx), w.t.own.epoch, results, w.c.Recall, next, now); err != nil {
			return false, err
		}
		w.t.meter.add(now, len(results))
		if next == 0 {
			return true, nil
		}
		if w.c.Recall = next; ctx.Err() != nil {
			return false, nil
		}
	}
}

// page processes one page of deliveries.
func (w *walk) page(ctx context.Context, sent []Target) ([]RecallResult, error) {
	results := make([]RecallResult, 0, len(sent)) // must not grow: goroutines write into its elements
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(recallsInFlight)
	for i := range sent {
		t := &sent[i]
		if !w.change.wants(t.Channel) {
			continue
		}
		results = append(results, RecallResult{Row: t.Row, Channel: t.Channel})
		res := &results[len(results)-1]
		sender, why := w.able(ctx, t)
		if sender == nil {
			res.Detail = why
			continue
		}
		g.Go(func() error {
			if !w.t.own.held() {
				return errLost
			}
			failed, err := w.change.make(ctx, w.t.own.hard, sender, t)
			if res.Done = err == nil && failed == nil; failed != nil {
				res.Detail = failed.Error()
			}
			return err
		})
	}
	return results, g.Wait()
}

// able returns the sender that can change a message, or the reason why there is none.
func (w *walk) able(ctx context.Context, t *Target) (push.Sender, string) {
	switch {
	case t.Left:
		return nil, "the subscriber has left"
	case t.Disabled != "":
		return nil, "the endpoint is disabled: " + t.Disabled
	case t.Outcome == Unknown && !dispatch.Resends(t.Channel):
		return nil, "nobody knows whether it arrived, or under which name"
	}
	sender := w.senders[t.Channel]
	if sender == nil {
		var err error
		if sender, err = w.s.dispatch.Sender(ctx, w.c.App, t.Channel); err != nil {
			return nil, err.Error()
		}
		w.senders[t.Channel] = sender
	}
	if why := w.change.unable(sender, t.Channel); why != "" {
		return nil, why
	}
	return sender, ""
}

// recaller withdraws one campaign's messages.
type recaller struct {
	s *Service
	c *Campaign
}

func (recaller) wants(push.Channel) bool { return true }

func (recaller) unable(sender push.Sender, ch push.Channel) string {
	if _, ok := sender.(push.Recaller); !ok {
		return "channel " + string(ch) + " cannot take messages back"
	}
	return ""
}

func (r recaller) make(ctx, hard context.Context, sender push.Sender, t *Target) (failed, err error) {
	return r.s.dispatch.Recall(ctx, hard, sender, t.Channel, r.s.sent(r.c, t))
}

func (r recaller) finish(ctx context.Context, epoch int64, results []RecallResult, _, next int64, now time.Time) error {
	return r.s.store.FinishRecall(ctx, epoch, r.c.Num, results, next, now)
}

// sent describes a sent message, without its content.
func (s *Service) sent(c *Campaign, t *Target) push.Sent {
	return push.Sent{
		Request: push.Request{
			ID: DeliveryID(c.ID, t.EndpointID.String()), App: c.App, Endpoint: t.EndpointID.String(), Recipient: t.Recipient, Address: t.Address,
			Urgency: c.Spec.Urgency(), Collapse: c.Spec.Collapse, ExpiresAt: s.cfg.Now().Add(c.Spec.Life()),
		},
		ExternalID: t.External, At: t.At,
	}
}
