package badge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// request is the message that tells a number.
func request(e *audience.Endpoint, unseen int, now time.Time) push.Request {
	return push.Request{
		ID: "badge-" + rand.Text(), App: e.App, Endpoint: e.ID.String(), Recipient: e.Recipient, Address: e.Address,
		Urgency: push.UrgencyNormal, Collapse: collapse, ExpiresAt: now.Add(life), Badge: &unseen, BadgeOnly: true,
	}
}

// Run tells what has changed, until ctx ends. Its error is always nil.
func (s *Service) Run(ctx context.Context) error {
	var tasks errgroup.Group
	tasks.SetLimit(senders)
	defer func() { _ = tasks.Wait() }() // no task fails
	for ctx.Err() == nil {
		to, wait, none := s.pace.next(s.cfg.Now())
		if none {
			select {
			case <-ctx.Done():
			case <-s.pace.wake:
			case <-time.After(wait):
			}
			continue
		}
		tasks.Go(func() error {
			sent, again := s.tell(ctx, to)
			s.pace.done(to)
			if sent {
				s.tellNodes(to)
			}
			if again && ctx.Err() == nil {
				s.pace.want(to, s.cfg.Now())
			}
			return nil
		})
	}
	return nil
}

// toldOf is a message to the other nodes: a recipient's devices were told, which counts in their pace too.
type toldOf struct {
	App       string `json:"app"`
	Recipient string `json:"recipient"`
}

// TellOthers sets the function that sends messages to the other nodes. It must be called before Run.
func (s *Service) TellOthers(tell func(body []byte)) { s.told = tell }

func (s *Service) tellNodes(of address) {
	if s.told == nil {
		return
	}
	body, _ := json.Marshal(toldOf{of.app, of.recipient}) // two texts
	s.told(body)
}

// Heard takes a message from another node.
func (s *Service) Heard(body []byte) error {
	var of toldOf
	if err := json.Unmarshal(body, &of); err != nil {
		return err
	}
	s.pace.spent(address{of.App, of.Recipient}, s.cfg.Now())
	return nil
}

var _ prometheus.Collector = (*Service)(nil)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) { s.results.Describe(ch) }

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) { s.results.Collect(ch) }
