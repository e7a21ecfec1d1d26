// Package dispatch sends deliveries over push channels: paced by credential, each an intent on disk before it leaves,
// tried again as long as that helps, with one honest outcome each. A process has one Dispatcher for all kinds of
// deliveries: a Backlog lists the deliveries that are due and keeps their outcomes.
//
// The way of a delivery: Backlog.Due → its turn (pace) → Backlog.Claim → push.Sender.Send → judge → Backlog.Finish.
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/sending/pace"
	"godwit.dev/godwit/internal/sending/push"
)

// Senders provides the current sender of an app's channel. An error gives the reason why there is none.
type Senders interface {
	Sender(ctx context.Context, app string, ch push.Channel) (push.Sender, error)
}

// Config holds the parts of a Dispatcher.
type Config struct {
	Senders Senders
	// Reload reads the settings of channels anew, which another node may have changed a moment ago; nil: Senders know all changes.
	Reload func(ctx context.Context) error
	// Channels are the channels for which Senders may have senders.
	Channels []push.Channel
	Tracer   Tracer // nil: there is none
	// Badge returns the number for the app's icon on a recipient's devices; nil: it stays as it is. It is called before each attempt. Nil:
	// no channel has icons.
	Badge func(ctx context.Context, app, recipient string, ch push.Channel) *int
	Now   func() time.Time // the clock of stored times
	Log   *slog.Logger
}

// Tracer follows single notifications.
type Tracer interface {
	// Pushing is called when an attempt begins. It returns a function to call with the error when the attempt has ended, or nil.
	Pushing(app, recipient, id, channel string, attempt int) (done func(error))
}

// Dispatcher sends deliveries.
type Dispatcher struct {
	Senders // that it sends with

	reload   func(ctx context.Context) error
	channels []push.Channel
	tracer   Tracer
	badge    func(ctx context.Context, app, recipient string, ch push.Channel) *int
	now      func() time.Time
	log      *slog.Logger
	paces    *pace.Scopes
	cases    *cases
	metrics  *metrics
}

// New makes a Dispatcher. It fails if one of the channels has no policy.
func New(cfg Config) (*Dispatcher, error) {
	if err := check(cfg.Channels); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Dispatcher{Senders: cfg.Senders, reload: cfg.Reload, channels: cfg.Channels, tracer: cfg.Tracer, badge: cfg.Badge, now: cfg.Now, log: cfg.Log, paces: pace.NewScopes(), cases: newCases(), metrics: newMetrics(cfg.Channels)}, nil
}

// Unblock allows an app's refused credentials to be tried again, after a person has checked them.
func (d *Dispatcher) Unblock(app string) {
	d.paces.Unblock(app)
	d.cases.reset(app)
}

// IsStop reports whether an error only says that the work is being stopped.
func IsStop(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

// current returns an app's sender for a channel: after a change of the channel's settings a new one. A *ChannelError ends or holds what
// waits for the channel, so it goes by settings that were read after the call.
func (d *Dispatcher) current(ctx context.Context, app string, ch push.Channel) (push.Sender, error) {
	sender, err := d.Sender(ctx, app, ch)
	if err != nil && d.reload != nil {
		if err := d.reload(ctx); err != nil {
			return nil, err
		}
		sender, err = d.Sender(ctx, app, ch)
	}
	if err != nil {
		return nil, &ChannelError{Channel: ch, Err: err}
	}
	return sender, nil
}
