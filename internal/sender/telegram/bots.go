package telegram

import (
	"context"
	"encoding/json"
	"log/slog"

	"godwit.dev/godwit/internal/channel"
	"godwit.dev/godwit/internal/endpoint"
	"godwit.dev/godwit/internal/push"
)

// Bots keeps a listener running for each app whose Telegram channel asks for it.
type Bots struct {
	channels *channel.Service
	audience Audience
	log      *slog.Logger
	running  map[string]*listener // by app
}

// NewBots makes bots whose chats are endpoints.
func NewBots(channels *channel.Service, endpoints *endpoint.Service, log *slog.Logger) *Bots {
	return &Bots{channels: channels, audience: botAudience{endpoints}, log: log, running: make(map[string]*listener)}
}

type listener struct {
	sender *Sender
	cancel context.CancelFunc
	done   chan struct{}
}

func (l *listener) stop() {
	l.cancel()
	<-l.done
}

// Run follows the settings until ctx ends.
func (b *Bots) Run(ctx context.Context) error {
	for {
		changed := b.channels.Changed()
		b.adjust(ctx)
		select {
		case <-changed:
		case <-ctx.Done():
			for _, l := range b.running {
				l.stop()
			}
			return nil
		}
	}
}

// adjust ends the listeners whose settings have changed and starts those that are missing.
func (b *Bots) adjust(ctx context.Context) {
	wanted := make(map[string]*Sender)
	for _, app := range b.channels.Apps(push.Telegram) {
		s, err := b.channels.Sender(ctx, app, push.Telegram)
		if err != nil {
			b.log.WarnContext(ctx, "bot cannot be listened to", "app", app, "error", err)
			continue
		}
		if t, ok := s.(*Sender); ok && t.Listens() {
			wanted[app] = t
		}
	}
	for app, l := range b.running {
		if wanted[app] != l.sender {
			l.stop()
			delete(b.running, app)
		}
	}
	for app, s := range wanted {
		if b.running[app] == nil {
			b.running[app] = b.listen(ctx, app, s)
		}
	}
}

func (b *Bots) listen(ctx context.Context, app string, s *Sender) *listener {
	ctx, cancel := context.WithCancel(ctx)
	l := &listener{sender: s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		if err := s.Listen(ctx, app, b.audience, b.log); err != nil {
			b.log.WarnContext(ctx, "listening to the bot ended", "app", app, "error", err)
		}
	}()
	b.log.InfoContext(ctx, "listening to the bot", "app", app)
	return l
}

// botAudience keeps the chats of bots as endpoints.
type botAudience struct{ endpoints *endpoint.Service }

// Join implements Audience.
func (k botAudience) Join(ctx context.Context, app string, c Chat) error {
	return k.endpoints.Join(ctx, app, push.Telegram, c.Address, c.Locale)
}

// Leave implements Audience.
func (k botAudience) Leave(ctx context.Context, app string, address json.RawMessage, reason string) error {
	return k.endpoints.Leave(ctx, app, push.Telegram, address, reason)
}
