package campaign

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	// slice is the number of rows that one transaction of background work changes.
	slice = 500
	// lookEvery is the interval at which the engine searches for campaigns of which it was not notified; lookShared is the interval if
	// other servers also change campaigns.
	lookEvery  = 5 * time.Second
	lookShared = time.Second
	// retryAfterFault is the pause after a failure of the store.
	retryAfterFault = time.Second
)

// task is the engine's work for one campaign.
type task struct {
	own    *owned
	state  State // state of the campaign for which the work is done
	cancel context.CancelFunc
	done   chan struct{}
	meter  *meter
}

// Run processes the campaigns of all apps that this server owns until ctx ends: it takes over their deliveries and settles those that an
// earlier owner left. When it returns, nothing is being sent, and every received outcome is on disk.
func (s *Service) Run(ctx context.Context) error {
	defer func() { s.releaseAll(slices.Collect(maps.Keys(s.apps))) }()
	var counting sync.WaitGroup
	counting.Go(func() { s.countSightings(ctx) })
	defer counting.Wait()
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-look.C:
		}
		next, err := s.schedule(ctx)
		switch {
		case dispatch.IsStop(ctx, err):
			return nil
		case err != nil:
			s.log.WarnContext(ctx, "campaigns cannot be read", "error", err)
			next = retryAfterFault
		}
		look.Reset(next)
	}
}

// resending lists the channels whose deliveries with unknown outcome are sent again.
func resending() (chs []push.Channel) {
	for _, ch := range push.Channels() {
		if dispatch.Resends(ch) {
			chs = append(chs, ch)
		}
	}
	return chs
}

// schedule starts and ends tasks so that they match the campaigns in the store, and returns how long to wait until the
// next look.
func (s *Service) schedule(ctx context.Context) (next time.Duration, err error) {
	apps, err := s.store.Waiting(ctx)
	if err != nil {
		return 0, err
	}
	next = lookEvery
	if s.cfg.Own != nil {
		next = lookShared
	}
	for _, o := range s.want(ctx, apps) {
		due, err := s.scheduleApp(ctx, o)
		if err != nil {
			return 0, err
		}
		next = min(next, due)
	}
	return next, nil
}

// scheduleApp does the work of schedule for one app that this server owns.
func (s *Service) scheduleApp(ctx context.Context, o *owned) (next time.Duration, err error) {
	busy, err := s.store.Busy(ctx, o.app)
	if err != nil {
		return 0, err
	}
	next = lookEvery
	now := s.cfg.Now()
	wanted := make(map[int64]*Campaign, len(busy))
	for _, c := range busy {
		if c.State == Scheduled {
			if wait := c.SendAt.Sub(now); wait > 0 {
				next = min(next, wait)
				continue
			}
			if c, err = s.launch(ctx, c); err != nil {
				return 0, err
			}
		}
		wanted[c.Num] = c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for num, t := range s.tasks {
		if c := wanted[num]; t.own == o && (c == nil || c.State != t.state) {
			t.cancel() // another task replaces it after it has ended
		}
	}
	for num, c := range wanted {
		if s.tasks[num] == nil && c.State != Scheduled {
			s.begin(o, c)
		}
	}
	return next, nil
}

// launch starts a scheduled campaign that is due. It pauses one whose segment cannot be used any more.
func (s *Service) launch(ctx context.Context, c *Campaign) (*Campaign, error) {
	was, err := s.current(ctx, c.App, c.ID)
	var bad *notification.FieldError
	if err != nil && !errors.As(err, &bad) {
		return nil, err
	}
	now := s.cfg.Now().Truncate(time.Millisecond)
	return s.store.Change(ctx, c.App, c.ID, func(c *Campaign) error {
		switch {
		case c.State != Scheduled:
		case bad != nil:
			c.State, c.Detail = Paused, bad.Error()
		default:
			c.take(was)
			c.begin(now)
		}
		return nil
	})
}

// begin starts the work for a campaign, unless this server has lost the app meanwhile. s.mu is held.
func (s *Service) begin(o *owned, c *Campaign) {
	work := map[State]func(context.Context, *Campaign, *task) error{
		Running: s.send, Recalling: s.recall, Correcting: s.correct, Cancelled: s.suppress,
	}[c.State]
	if work == nil || o.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(o.ctx)
	t := &task{own: o, state: c.State, cancel: cancel, done: make(chan struct{}), meter: new(meter)}
	s.tasks[c.Num] = t
	o.tasks.Go(func() {
		defer cancel()
		for {
			err := work(ctx, c, t)
			if errors.Is(err, ErrStale) {
				s.log.WarnContext(ctx, "another server has taken over the deliveries of an app", "app", c.App)
				o.lose()
			}
			if err == nil || ctx.Err() != nil {
				break
			}
			s.log.WarnContext(ctx, "campaign is interrupted", "campaign", c.ID, "app", c.App, "state", c.State, "error", err)
			pause.For(ctx, retryAfterFault)
		}
		s.mu.Lock()
		delete(s.tasks, c.Num)
		s.mu.Unlock()
		close(t.done)
		s.notify()
	})
}

// suppress suppresses the pending deliveries of a cancelled campaign.
func (s *Service) suppress(ctx context.Context, c *Campaign, _ *task) error {
	return s.sweep(ctx, c, Sweep{From: Pending, To: Suppressed, Detail: "cancelled"})
}

func (s *Service) sweep(ctx context.Context, c *Campaign, sw Sweep) error {
	for {
		n, err := s.store.Sweep(ctx, c.Num, sw, slice, s.cfg.Now())
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

// end changes a campaign's state when its work is done, unless somebody has changed the state meanwhile.
func (s *Service) end(ctx context.Context, c *Campaign, from, to State, detail string) error {
	now := s.cfg.Now().Truncate(time.Millisecond)
	_, err := s.store.Change(context.WithoutCancel(ctx), c.App, c.ID, func(c *Campaign) error {
		if c.State == from {
			c.State, c.Detail = to, detail
			if c.Ended() {
				c.FinishedAt = now
			}
		}
		return nil
	})
	if err == nil {
		s.log.InfoContext(ctx, "campaign moved on", "campaign", c.ID, "app", c.App, "from", from, "to", to, "detail", detail)
	}
	return err
}
