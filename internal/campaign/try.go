package campaign

import (
	"context"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/push"
)

// MaxTest bounds the endpoints of one test.
const MaxTest = 20

// testPatience is how long a test message may take.
const testPatience = 10 * time.Second

// Tested is what became of a test message.
type Tested struct {
	Endpoint string
	Channel  push.Channel
	Outcome  Outcome
	Detail   string
}

// Test sends the campaign to these endpoints at once, whatever its state, without a trace in its counts. Its ids are
// others than those of the campaign proper, which will reach the same endpoints later.
func (s *Service) Test(ctx context.Context, app, id string, endpoints []audience.ID) ([]Tested, error) {
	c, err := s.store.Get(ctx, app, id)
	if err != nil {
		return nil, err
	}
	if len(endpoints) == 0 || len(endpoints) > MaxTest {
		return nil, badField("endpoints", "must be from 1 to %d ids of endpoints", MaxTest)
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
		results = append(results, s.testOne(ctx, c, e))
	}
	return results, nil
}

func (s *Service) testOne(ctx context.Context, c *Campaign, e *audience.Endpoint) Tested {
	res := Tested{Endpoint: e.ID.String(), Channel: e.Channel, Outcome: Refused}
	sender, err := s.cfg.Senders.Sender(ctx, c.App, e.Channel)
	if err != nil {
		res.Detail = err.Error()
		return res
	}
	now := s.cfg.Now()
	p := Person{Recipient: e.Recipient, Locale: e.Locale, Attributes: e.Attributes}
	_, err = sender.Send(ctx, push.Request{
		ID: DeliveryID(c.ID+"/test/"+newID(now), e.ID.String()), App: c.App, Endpoint: e.ID.String(), Recipient: e.Recipient, Address: e.Address,
		Content: c.Spec.Render(p, e.Channel), Urgency: c.Spec.Urgency(), ExpiresAt: now.Add(time.Hour),
	})
	if err != nil {
		res.Detail = err.Error()
		return res
	}
	res.Outcome = Accepted
	return res
}

// Preview renders a campaign's message for somebody made up.
func (s *Service) Preview(ctx context.Context, app, id string, p Person, ch push.Channel) (push.Content, error) {
	c, err := s.store.Get(ctx, app, id)
	if err != nil {
		return push.Content{}, err
	}
	return c.Spec.Render(p, ch), nil
}
