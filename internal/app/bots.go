package app

import (
	"context"
	"encoding/json"
	"log/slog"

	"godwit.dev/godwit/internal/channel"
	"godwit.dev/godwit/internal/endpoint"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/sender/telegram"
)

// startBots starts listening to the bots of apps that want it.
func (a *App) startBots(context.Context) error {
	b := &bots{channels: a.channels, audience: botAudience{a.endpoints}, log: a.log, running: make(map[string]*listener)}
	a.steps.addRun("bots", storePatience, b.run, a.fail)
	return nil
}

// bots keeps a listener running for each app whose Telegram channel asks for it.
type bots struct {
	channels *channel.Service
	audience telegram.Audience
	log      *slog.Logger
	running  map[string]*listener // by app
}

type listener struct {
	sender *telegram.Sender
	cancel context.CancelFunc
	done   chan struct{}
}

func (l *listener) stop() {
	l.cancel()
	<-l.done
}

// run follows the settings until ctx ends.
func (b *bots) run(ctx context.Context) error {
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
func (b *bots) adjust(ctx context.Context) {
	wanted := make(map[string]*telegram.Sender)
	for _, app := range b.channels.Apps(push.Telegram) {
		s, err := b.channels.Sender(ctx, app, push.Telegram)
		if err != nil {
			b.log.WarnContext(ctx, "bot cannot be listened to", "app", app, "error", err)
			continue
		}
		if t, ok := s.(*telegram.Sender); ok && t.Listens() {
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

func (b *bots) listen(ctx context.Context, app string, s *telegram.Sender) *listener {
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

// Join implements telegram.Audience.
func (k botAudience) Join(ctx context.Context, app string, c telegram.Chat) error {
	return k.endpoints.Join(ctx, app, push.Telegram, c.Address, c.Locale)
}

// Leave implements telegram.Audience.
func (k botAudience) Leave(ctx context.Context, app string, address json.RawMessage, reason string) error {
	return k.endpoints.Leave(ctx, app, push.Telegram, address, reason)
}
