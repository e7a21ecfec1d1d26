// Package badge shows on the icons of phones' apps how much of their recipient's inbox is unseen. Messages of the app carry the number, and
// when it has changed otherwise, as because the person has looked at the inbox elsewhere, a message without content brings it. Those are
// paced, and nothing is stored about them: one that is lost is made good by the next message.
package badge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	// settle is how long a change waits for further ones: who opens an inbox marks several items.
	settle = 2 * time.Second
	// A recipient's devices get atOnce messages, and another every so often. Apple throttles apps that are woken more than two or three
	// times an hour (developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app); Google allows 20
	// collapsible messages at once for each device, and one more every 3 minutes (firebase.google.com/docs/cloud-messaging/throttling-and-quotas).
	every  = 20 * time.Minute
	atOnce = 3
	// maxKnown is the most recipients that wait, or whose last message is remembered, at some 200 bytes each. Changes beyond are not told.
	maxKnown = 100_000
	senders  = 16 // recipients served at the same time
	life     = 24 * time.Hour
	// collapse makes a provider that still holds an older number for a device replace it.
	collapse = "godwit_badge"
	// rest is how long an app's channel is left alone after its provider refused more than one message.
	rest = 5 * time.Minute
)

// channels are the channels whose devices have icons.
var channels = []push.Channel{push.FCM, push.APNs}

// Inboxes counts inboxes.
type Inboxes interface {
	InboxesUsed() bool
	InboxCounts(ctx context.Context, app, recipient string) (inbox.Counts, error)
}

// Channels are the apps' channels.
type Channels interface {
	Has(app string, ch push.Channel, setting string) bool
	Sender(ctx context.Context, app string, ch push.Channel) (push.Sender, error)
}

// Endpoints are the addresses of recipients' devices.
type Endpoints interface {
	EndpointsOf(ctx context.Context, app, recipient string) ([]audience.Endpoint, error)
	DisableEndpoint(ctx context.Context, number int64, reason string) error
}

// Config holds the parts of a Service.
type Config struct {
	Inboxes   Inboxes
	Channels  Channels
	Endpoints Endpoints
	Now       func() time.Time
	Log       *slog.Logger
}

// Service tells devices their badge.
type Service struct {
	cfg     Config
	pace    pace
	rests   rests
	results *prometheus.CounterVec
	told    func(body []byte) // the other nodes; nil: there are none
}

// New makes a Service, which tells changes once Run is called.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, pace: newPace(), results: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "godwit_badge_updates_total", Help: "Messages since start that told devices the number on the app's icon alone, by outcome; dropped counts recipients.",
	}, []string{"outcome"})}
}

// shown lists the channels on which an app's settings show the number.
func (s *Service) shown(app string) (list []push.Channel) {
	for _, ch := range channels {
		if s.cfg.Channels.Has(app, ch, channel.Badge.Name) {
			list = append(list, ch)
		}
	}
	return list
}

// Badge returns the number for a message to a recipient's device. Nil: the app does not show it, or the recipient has had no inbox.
func (s *Service) Badge(ctx context.Context, app, recipient string, ch push.Channel) *int {
	if !s.cfg.Inboxes.InboxesUsed() || !s.cfg.Channels.Has(app, ch, channel.Badge.Name) {
		return nil
	}
	counts, err := s.cfg.Inboxes.InboxCounts(ctx, app, recipient)
	if err != nil || counts.Revision == 0 { // the message matters more than the number
		return nil
	}
	return &counts.Unseen
}

// Changed follows the commits of this node. It does not wait.
func (s *Service) Changed(changed []inbox.Change) {
	for i := range changed {
		c := &changed[i]
		if !c.Moved || len(s.shown(c.App)) == 0 {
			continue
		}
		if !s.pace.want(address{c.App, c.Recipient}, s.cfg.Now()) {
			s.results.WithLabelValues("dropped").Inc()
		}
	}
}

// tell sends a recipient's devices the number. again: it has to be told later.
func (s *Service) tell(ctx context.Context, to address) (sent, again bool) {
	shown := s.shown(to.app)
	if len(shown) == 0 {
		return false, false
	}
	devices, err := s.devices(ctx, to, shown)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "the number on an app's icon is told later", "app", to.app, "error", err)
		return false, true
	}
	if len(devices) == 0 {
		return false, false
	}
	counts, err := s.cfg.Inboxes.InboxCounts(ctx, to.app, to.recipient)
	if err != nil || counts.Revision == 0 {
		return false, err != nil
	}
	for i := range devices {
		err := s.send(ctx, &devices[i], counts.Unseen)
		s.results.WithLabelValues(push.Outcome(err)).Inc()
		sent = sent || err == nil
		again = again || s.handle(ctx, &devices[i], err)
	}
	return sent, again
}

// devices lists a recipient's active endpoints on some channels.
func (s *Service) devices(ctx context.Context, of address, on []push.Channel) (devices []audience.Endpoint, err error) {
	all, err := s.cfg.Endpoints.EndpointsOf(ctx, of.app, of.recipient)
	for i := range all {
		for _, ch := range on {
			if all[i].Channel == ch && all[i].Status == audience.Active && !s.rests.on(of.app, ch, s.cfg.Now()) {
				devices = append(devices, all[i])
			}
		}
	}
	return devices, err
}

func (s *Service) send(ctx context.Context, e *audience.Endpoint, unseen int) error {
	sender, err := s.cfg.Channels.Sender(ctx, e.App, e.Channel)
	if err != nil {
		return err
	}
	timeout := e.Channel.Find().Policy.Timeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("no answer in "+timeout.String()))
	defer cancel()
	_, err = sender.Send(ctx, request(e, unseen, s.cfg.Now()))
	return err
}

// handle heeds what a provider says, and reports whether the number has to be told again.
func (s *Service) handle(ctx context.Context, e *audience.Endpoint, err error) (again bool) {
	var gone *push.GoneError
	var retry *push.RetryError
	var config *push.ConfigError
	switch {
	case err == nil:
	case errors.As(err, &gone):
		if !e.EndsWith(gone.Since) {
			return false
		}
		if err := s.cfg.Endpoints.DisableEndpoint(ctx, e.Number, gone.Reason); err != nil {
			s.cfg.Log.WarnContext(ctx, "an endpoint that is gone stays enabled", "app", e.App, "endpoint", e.ID, "error", err)
		}
	case errors.As(err, &config):
		s.rests.begin(e.App, e.Channel, s.cfg.Now(), rest)
	case errors.As(err, &retry):
		if retry.Credential {
			s.rests.begin(e.App, e.Channel, s.cfg.Now(), max(retry.After, rest))
		}
		return true
	}
	return false
}
