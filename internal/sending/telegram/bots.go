package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

// Bots runs a listener for each app whose Telegram channel wants one, while this server holds the app's lease: Telegram answers two
// listeners of one bot with errors.
type Bots struct {
	channels *channel.Service
	audience Audience
	own      lease.Func
	log      *slog.Logger
	running  map[string]*listener // by app
}

// PressFunc records that somebody pressed a button with this data.
type PressFunc func(ctx context.Context, app, data string) error

// NewBots makes bots whose chats are endpoints, and whose buttons report to press. owns decides which server listens for an app; nil: there
// is only this server.
func NewBots(channels *channel.Service, endpoints *endpoint.Service, press PressFunc, owns lease.Func, log *slog.Logger) *Bots {
	return &Bots{channels: channels, audience: botAudience{endpoints, press}, own: owns, log: log, running: make(map[string]*listener)}
}

type listener struct {
	sender *Sender
	stop   func()
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

// adjust stops listeners whose settings have changed and starts missing ones.
func (b *Bots) adjust(ctx context.Context) {
	wanted := make(map[string]*Sender)
	for _, app := range b.channels.Apps(push.Telegram) {
		s, err := b.channels.Sender(ctx, app, push.Telegram)
		if err != nil {
			b.log.WarnContext(ctx, "bot cannot be listened to", "app", app, "error", push.ForLog(err))
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
	owns := b.own
	if owns == nil {
		owns = lease.Alone(ctx)
	}
	return &listener{sender: s, stop: owns(app, func(ctx context.Context, held func() bool) {
		ctx, lose := context.WithCancel(ctx)
		defer lose()
		b.log.InfoContext(ctx, "listening to the bot", "app", app)
		if err := s.Listen(ctx, app, ownAudience{b.audience, held, lose}, b.log); err != nil {
			b.log.WarnContext(ctx, "listening to the bot ended", "app", app, "error", push.ForLog(err))
		}
	})}
}

// ownAudience passes changes on only while this server is the listener. A server that took over may already have received newer changes.
type ownAudience struct {
	Audience
	held func() bool
	lose context.CancelFunc
}

var errLost = errors.New("another server listens to this bot now")

func (o ownAudience) lost(ctx context.Context) bool {
	if o.held() {
		return ctx.Err() != nil
	}
	o.lose()
	return true
}

// Join implements Audience.
func (o ownAudience) Join(ctx context.Context, app string, c Chat) error {
	if o.lost(ctx) {
		return errLost
	}
	return o.Audience.Join(ctx, app, c)
}

// Leave implements Audience.
func (o ownAudience) Leave(ctx context.Context, app string, address json.RawMessage, reason string) error {
	if o.lost(ctx) {
		return errLost
	}
	return o.Audience.Leave(ctx, app, address, reason)
}

// Press implements Audience.
func (o ownAudience) Press(ctx context.Context, app, data string) error {
	if o.lost(ctx) {
		return errLost
	}
	return o.Audience.Press(ctx, app, data)
}

// botAudience stores the chats of bots as endpoints.
type botAudience struct {
	endpoints *endpoint.Service
	press     PressFunc
}

// Press implements Audience.
func (k botAudience) Press(ctx context.Context, app, data string) error {
	return k.press(ctx, app, data)
}

// Join implements Audience.
func (k botAudience) Join(ctx context.Context, app string, c Chat) error {
	return k.endpoints.Join(ctx, app, push.Telegram, c.Address, c.Locale, c.Name)
}

// Leave implements Audience.
func (k botAudience) Leave(ctx context.Context, app string, address json.RawMessage, reason string) error {
	return k.endpoints.Leave(ctx, app, push.Telegram, address, reason)
}
