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

// run is the sending of one campaign, from its start or resumption to its end or the next pause.
type run struct {
	s     *Service
	c     *Campaign
	t     *task
	quiet *quietTimes
	local *localTimes     // nil: all recipients are due at the same time
	key   sealed.Key      // of tracking tokens
	named map[string]bool // recipients that the audience lists by name; nil: it lists none
	job   *dispatch.Job

	enumerated atomic.Bool
	final      atomic.Bool // no delivery waits for a decision any more
	decision   atomic.Pointer[Decision]
	landed     chan struct{} // has an element if results were stored since the last look
}

// send processes a campaign until every delivery has its outcome or ctx ends.
func (s *Service) send(ctx context.Context, c *Campaign, t *task) error {
	c, err := s.store.Get(ctx, c.App, c.ID)
	if err != nil {
		return err
	}
	t.own.limits.forget() // this campaign counts from now on
	r := &run{s: s, c: c, t: t, named: namedBy(c), landed: make(chan struct{}, 1)}
	r.final.Store(!c.Spec.Decides())
	if r.quiet, err = c.Spec.quietTimes(); err != nil {
		return err
	}
	if c.Spec.Local != nil {
		if r.local, err = c.Spec.localTimes(); err != nil {
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
	// Deliveries that were held until a person has checked the channel are tried again.
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

// work enumerates and sends concurrently.
func (r *run) work(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.enumerate(ctx) })
	g.Go(func() error { return r.decide(ctx) })
	g.Go(func() error { return r.job.Run(ctx, r.t.own.hard) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("send %s: %w", r.c.ID, err)
	}
	return nil
}

// enumerate adds a delivery for every endpoint of the audience.
func (r *run) enumerate(ctx context.Context) error {
	for !r.enumerated.Load() {
		n, done, err := r.s.store.Enumerate(ctx, r.t.own.epoch, r.c.Num, slice, r.place)
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

// place puts an endpoint into the queue: at the campaign's time, spread over the configured time by a constant hash, and outside its quiet
// hours.
func (r *run) place(t *Target) Place {
	p := Place{Group: r.c.group(t)}
	if spread := time.Duration(r.c.Spec.Spread); spread > 0 {
		p.After = time.Duration(fraction(r.c.Num, t.Row) * float64(spread))
	}
	if p.Waits = p.Group == Rest; p.Waits {
		return p
	}
	at := r.c.StartedAt
	if r.local != nil {
		at = r.local.due(r.c.SendAt, t.Timezone)
	}
	p.Due = r.quiet.next(at.Add(p.After), t.Timezone)
	return p
}

// fraction maps rows evenly to [0, 1).
func fraction(num, row int64) float64 {
	return evenly(uint64(num)*0x9e3779b97f4a7c15 ^ uint64(row)) // a hash
}

// evenly maps hashes evenly to [0, 1).
func evenly(h uint64) float64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	h ^= h >> 31
	return float64(h>>11) / (1 << 53)
}

// fewHeld is the share of a campaign's deliveries below which held deliveries, whose destination refuses the server's credential, are given
// up: one subscriber's server that answers 403 must not keep a campaign from ending.
const fewHeld = 0.01

// end finishes the run when nothing more can be sent: all deliveries have an outcome, or channels hold the rest back.
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
		return nil // deliveries have just become pending again: the engine checks once more
	case float64(open) > fewHeld*float64(f.Total()):
		return r.s.end(ctx, r.c, Running, Paused, fmt.Sprintf("%d deliveries wait: %s", open, why))
	default:
		if err := r.s.sweep(ctx, r.c, Sweep{From: Pending, Held: true, To: Refused, Detail: "not sent: " + why}); err != nil {
			return err
		}
		return r.s.end(ctx, r.c, Running, Completed, "")
	}
}
