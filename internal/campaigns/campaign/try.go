package campaign

import (
	"context"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// MaxTest limits the number of endpoints in one test.
const MaxTest = 20

// testPatience limits the time for a test message.
const testPatience = 10 * time.Second

// Tested is the result of a test message.
type Tested struct {
	Endpoint string
	Channel  push.Channel
	Variant  string // of a campaign with variants
	Outcome  Outcome
	Detail   string
}

// Test sends the campaign's message, or both variants of it, to these endpoints at once, in any state, without counting it. The messages' ids differ from the
// campaign's own, because the campaign may reach the same endpoints later.
func (s *Service) Test(ctx context.Context, app, id string, endpoints []audience.ID) ([]Tested, error) {
	c, err := s.store.Get(ctx, app, id)
	if err != nil {
		return nil, err
	}
	if len(endpoints) == 0 || len(endpoints) > MaxTest {
		return nil, notification.BadField("endpoints", "must be from 1 to %d ids of endpoints", MaxTest)
	}
	list, err := s.store.Endpoints(ctx, app, endpoints)
	if err != nil {
		return nil, err
	}
	results := make([]Tested, 0, len(endpoints))
	found := make(map[audience.ID]*audience.Endpoint, len(list))
	for i := range list {
		found[list[i].ID] = &list[i]
	}
	ctx, cancel := context.WithTimeoutCause(ctx, testPatience, fmt.Errorf("no answer in %s", testPatience))
	defer cancel()
	for _, id := range endpoints {
		e := found[id]
		if e == nil {
			results = append(results, Tested{Endpoint: id.String(), Outcome: Suppressed, Detail: "there is no such endpoint"})
			continue
		}
		for _, g := range []Group{Whole, GroupA, GroupB} {
			if (g == Whole) != c.Spec.Tries() {
				results = append(results, s.testOne(ctx, c, g, e))
			}
		}
	}
	return results, nil
}

func (s *Service) testOne(ctx context.Context, c *Campaign, g Group, e *audience.Endpoint) Tested {
	res := Tested{Endpoint: e.ID.String(), Channel: e.Channel, Variant: g.Name(), Outcome: Refused}
	sender, err := s.dispatch.Sender(ctx, c.App, e.Channel)
	if err != nil {
		res.Detail = err.Error()
		return res
	}
	now := s.cfg.Now()
	p := Person{Recipient: e.Recipient, Locale: e.Locale, Attributes: e.Attributes}
	_, err = sender.Send(ctx, push.Request{
		ID: DeliveryID(c.ID+"/test/"+newID(now), e.ID.String()), App: c.App, Endpoint: e.ID.String(), Recipient: e.Recipient, Address: e.Address,
		Content: c.Spec.Of(g).Render(p, e.Channel), Urgency: c.Spec.Urgency(), ExpiresAt: now.Add(time.Hour),
	})
	if err != nil {
		res.Detail = err.Error()
		return res
	}
	res.Outcome = Accepted
	return res
}

// Preview is a campaign's message for one person, and the size of its audience.
type Preview struct {
	Content  push.Content
	Second   *push.Content // of the second variant; nil: there is none
	Audience map[push.Channel]int64
}

// Preview renders a campaign's message for an invented person, or for the subscriber of endpoint unless that is nil, and counts the current
// audience.
func (s *Service) Preview(ctx context.Context, app, id string, p Person, ch push.Channel, endpoint *audience.ID) (*Preview, error) {
	c, err := s.current(ctx, app, id)
	if err != nil {
		return nil, err
	}
	if endpoint != nil {
		list, err := s.store.Endpoints(ctx, app, []audience.ID{*endpoint})
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return nil, notification.BadField("endpoint", "there is no such endpoint")
		}
		p, ch = Person{Recipient: list[0].Recipient, Locale: list[0].Locale, Attributes: list[0].Attributes}, list[0].Channel
	}
	chosen := c.Spec.Audience
	if len(c.Channels) > 0 {
		chosen.Channels = c.Channels
	}
	sel, err := chosen.Select("audience")
	if err != nil {
		return nil, err
	}
	n, err := s.store.CountEndpoints(ctx, app, sel)
	if err != nil {
		return nil, err
	}
	made := &Preview{Content: c.Spec.Render(p, ch), Audience: n}
	if c.Spec.Tries() {
		second := c.Spec.Of(GroupB).Render(p, ch)
		made.Second = &second
	}
	return made, nil
}
