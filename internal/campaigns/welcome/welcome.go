// Package welcome greets new subscribers: a browser that registers for the first time gets one Web Push message, made from a template of
// the app.
package welcome

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	maxWaiting = 1000             // greetings that wait; further ones are dropped, so that registrations are never delayed
	atOnce     = 4                // sent at the same time
	patience   = 10 * time.Second // for one
	lifetime   = time.Hour        // a greeting makes sense only soon after the subscription
)

// Setting is the setting of the channel webpush that names the template. Empty: no greetings are sent.
const Setting = "welcome"

// Channels returns apps' settings and senders.
type Channels interface {
	Get(app string, ch push.Channel) (channel.Info, error)
	Sender(ctx context.Context, app string, ch push.Channel) (push.Sender, error)
}

// Templates are the messages that apps have stored.
type Templates interface {
	Get(ctx context.Context, app, name string) (*template.Template, error)
}

// Config holds the parts of a Service.
type Config struct {
	Channels  Channels
	Templates Templates
	Now       func() time.Time
	Log       *slog.Logger
}

// Service sends greetings. Each is tried once, and is lost if the server ends before.
type Service struct {
	cfg     Config
	waiting chan greeting
}

type greeting struct {
	to       audience.Endpoint
	template string
}

// New returns a Service. It sends greetings only while Run runs.
func New(cfg Config) *Service { return &Service{cfg, make(chan greeting, maxWaiting)} }

// Greet queues a greeting for a new endpoint, if its app has a welcome template. It does not block.
func (s *Service) Greet(e audience.Endpoint) {
	if e.Channel != push.WebPush || e.Status != audience.Active {
		return
	}
	info, err := s.cfg.Channels.Get(e.App, push.WebPush)
	name, _ := info.Settings[Setting].(string)
	if err != nil || name == "" {
		return
	}
	select {
	case s.waiting <- greeting{e, name}:
	default:
		s.cfg.Log.Warn("welcome left out", "app", e.App, "endpoint", e.ID.String(), "reason", fmt.Sprintf("%d wait already", maxWaiting))
	}
}

// Run sends greetings until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case g := <-s.waiting:
					if err := s.send(ctx, &g); err != nil {
						s.cfg.Log.WarnContext(ctx, "welcome not sent", "app", g.to.App, "endpoint", g.to.ID.String(), "template", g.template, "error", push.ForLog(err))
					}
				}
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

func (s *Service) send(ctx context.Context, g *greeting) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the push service did not answer in %s", patience))
	defer cancel()
	e := &g.to
	t, err := s.cfg.Templates.Get(ctx, e.App, g.template)
	if err != nil {
		return err
	}
	sender, err := s.cfg.Channels.Sender(ctx, e.App, e.Channel)
	if err != nil {
		return err
	}
	id := e.ID.String()
	_, err = sender.Send(ctx, push.Request{
		ID: "welcome-" + id, App: e.App, Endpoint: id, Recipient: e.Recipient, Address: e.Address,
		Content: t.Content.Render(template.Person{Recipient: e.Recipient, Locale: e.Locale, Attributes: e.Attributes}, e.Channel, ""), ExpiresAt: s.cfg.Now().Add(lifetime),
	})
	return err
}
