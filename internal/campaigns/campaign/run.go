package campaign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

// run is one campaign being sent, from its start or resumption to its end or the next pause.
type run struct {
	s     *Service
	c     *Campaign
	t     *task
	quiet *quietTimes
	key   sealed.Key      // of tracking tokens
	named map[string]bool // the recipients that the audience names; nil: it names none
	job   *dispatch.Job

	enumerated atomic.Bool
}

// send works on a campaign until every delivery has its outcome or ctx ends.
func (s *Service) send(ctx context.Context, c *Campaign, t *task) error {
	c, err := s.store.Get(ctx, c.App, c.ID)
	if err != nil {
		return err
	}
	r := &run{s: s, c: c, t: t, named: namedBy(c)}
	if c.Spec.Quiet != nil {
		if r.quiet, err = c.Spec.Quiet.parse(); err != nil {
			return err
		}
	}
	if r.key, err = s.tokens.Key(ctx, c.App); err != nil {
		return err
	}
	if !c.Enumerated && slices.Contains(c.Channels, push.Live) {
		if err := s.store.EnsureLive(ctx, c.App, c.Spec.Audience.Recipients); err != nil {
			return err
		}
	}
	r.enumerated.Store(c.Enumerated)
	r.job, err = s.dispatch.Job(dispatch.Work{
		App: c.App, Channels: c.Channels, Backlog: r, Rate: float64(c.Spec.Rate), Held: t.own.held, Log: s.log.With("campaign", c.ID),
	})
	if err != nil {
		return err
	}
	// Deliveries that were held until a person checks the channel are tried again.
	if err := s.sweep(ctx, c, Sweep{From: Pending, Held: true, To: Pending, Due: s.cfg.Now()}); err != nil {
		return err
	}
	err = r.work(ctx)
	var unable *ChannelError
	switch {
	case errors.As(err, &unable) && ctx.Err() == nil:
		return s.end(ctx, c, Running, Paused, unable.Error())
	case err != nil || ctx.Err() != nil:
		return err
	}
	return r.end(ctx)
}

// work enumerates and sends side by side.
func (r *run) work(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.enumerate(ctx) })
	g.Go(func() error { return r.job.Run(ctx, r.t.own.hard) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("send %s: %w", r.c.ID, err)
	}
	return nil
}

// enumerate writes a delivery for every endpoint of the audience.
func (r *run) enumerate(ctx context.Context) error {
	for !r.enumerated.Load() {
		n, done, err := r.s.store.Enumerate(ctx, r.t.own.epoch, r.c.Num, slice, r.due)
		if err != nil {
			if dispatch.IsStop(ctx, err) {
				return nil
			}
			return fmt.Errorf("enumerate the audience: %w", err)
		}
		if done {
			r.enumerated.Store(true)
		}
		if n > 0 || done {
			r.job.Kick()
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// due returns when an endpoint's turn is: spread over the configured time by a hash that does not change, and not in its
// quiet hours.
func (r *run) due(t *Target) time.Time {
	at := r.c.StartedAt
	if spread := time.Duration(r.c.Spec.Spread); spread > 0 {
		at = at.Add(time.Duration(fraction(r.c.Num, t.Row) * float64(spread)))
	}
	return r.quiet.next(at, t.Timezone)
}

// fraction spreads rows evenly over [0, 1).
func fraction(num, row int64) float64 {
	h := uint64(num)*0x9e3779b97f4a7c15 ^ uint64(row) //nolint:gosec // a hash
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	h ^= h >> 31
	return float64(h>>11) / (1 << 53)
}

// fewHeld is the share of a campaign's deliveries up to which those held back by a place that refuses our credential are
// given up: a stranger's server that answers 403 must not keep a campaign from ending.
const fewHeld = 0.01

// end settles the remaining deliveries when nothing more can be sent: none, or those that channels hold back.
func (r *run) end(ctx context.Context) error {
	f, err := r.s.store.Figures(ctx, r.c.Num)
	if err != nil {
		return err
	}
	open := f.Open()
	if open == 0 {
		return r.s.end(ctx, r.c, Running, Completed, "")
	}
	switch why := r.job.Refusal(); {
	case why == "":
		return nil // deliveries became pending again a moment ago: the engine checks once more
	case float64(open) > fewHeld*float64(f.Total()):
		return r.s.end(ctx, r.c, Running, Paused, fmt.Sprintf("%d deliveries wait: %s", open, why))
	default:
		if err := r.s.sweep(ctx, r.c, Sweep{From: Pending, Held: true, To: Refused, Detail: "not sent: " + why}); err != nil {
			return err
		}
		return r.s.end(ctx, r.c, Running, Completed, "")
	}
}
