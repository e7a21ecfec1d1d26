package campaign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"godwit.dev/godwit/internal/dispatch"
	"godwit.dev/godwit/internal/push"
)

const (
	// slice is how many rows one transaction of background work changes.
	slice = 500
	// lookEvery is how often the engine looks for campaigns that nobody told it of.
	lookEvery = 5 * time.Second
	// stopPatience is how long requests under way may take when the server stops. What takes longer is cut off and
	// becomes unknown.
	stopPatience = 4 * time.Second
	// retryAfterFault is when work goes on after the store failed.
	retryAfterFault = time.Second
)

// task is what the engine is doing for one campaign.
type task struct {
	state  State           // the work is that of a campaign in this state
	hard   context.Context // of requests under way: they outlive a pause, and a stop for a while
	cancel context.CancelFunc
	done   chan struct{}
	meter  *meter
}

// Run takes the queue over, settles what an earlier owner left, and works on campaigns until ctx ends. When it
// returns, nothing is being sent any more and every outcome that came is on disk.
func (s *Service) Run(ctx context.Context) error {
	var err error
	if s.epoch, err = s.store.Own(ctx); err != nil {
		return fmt.Errorf("take over the delivery queue: %w", err)
	}
	if err := s.recover(ctx); err != nil {
		if dispatch.IsStop(ctx, err) {
			return nil
		}
		return err
	}
	hard, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	stopping := context.AfterFunc(ctx, func() { time.AfterFunc(stopPatience, func() { cut(errStopped) }) })
	defer stopping()
	var wg sync.WaitGroup
	defer wg.Wait()
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-look.C:
		}
		next, err := s.schedule(ctx, hard, &wg)
		switch {
		case dispatch.IsStop(ctx, err):
			return nil
		case errors.Is(err, ErrStale):
			return err
		case err != nil:
			s.log.WarnContext(ctx, "campaigns cannot be read", "error", err)
			next = retryAfterFault
		}
		look.Reset(next)
	}
}

var errStopped = errors.New("the server stopped while it waited for the answer")

// recover settles deliveries that were being sent when the server ended.
func (s *Service) recover(ctx context.Context) error {
	total := 0
	for {
		n, err := s.store.Recover(ctx, s.epoch, slice, resending(), s.cfg.Now())
		if err != nil {
			return fmt.Errorf("recover deliveries: %w", err)
		}
		if total += n; n == 0 {
			break
		}
	}
	if total > 0 {
		s.log.InfoContext(ctx, "deliveries were being sent when the server ended", "count", total)
	}
	return nil
}

// resending lists the channels whose unknown outcomes are sent again.
func resending() (chs []push.Channel) {
	for _, ch := range Channels() {
		if dispatch.Resends(ch) {
			chs = append(chs, ch)
		}
	}
	return chs
}

// schedule compares what is being done with what is to be done, and says when to look again.
func (s *Service) schedule(ctx, hard context.Context, wg *sync.WaitGroup) (next time.Duration, err error) {
	busy, err := s.store.Busy(ctx)
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
		if c := wanted[num]; c == nil || c.State != t.state {
			t.cancel() // another takes its place once it is done
		}
	}
	for num, c := range wanted {
		if s.tasks[num] == nil && c.State != Scheduled {
			s.begin(ctx, hard, wg, c)
		}
	}
	return next, nil
}

// launch starts a scheduled campaign whose time has come.
func (s *Service) launch(ctx context.Context, c *Campaign) (*Campaign, error) {
	now := s.cfg.Now().Truncate(time.Millisecond)
	return s.store.Change(ctx, c.App, c.ID, func(c *Campaign) error {
		if c.State == Scheduled {
			c.begin(now)
		}
		return nil
	})
}

// begin starts the work for a campaign. s.mu is held.
func (s *Service) begin(ctx, hard context.Context, wg *sync.WaitGroup, c *Campaign) {
	work := map[State]func(context.Context, *Campaign, *task) error{
		Running: s.send, Recalling: s.recall, Cancelled: s.suppress,
	}[c.State]
	if work == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &task{state: c.State, hard: hard, cancel: cancel, done: make(chan struct{}), meter: new(meter)}
	s.tasks[c.Num] = t
	wg.Go(func() {
		defer cancel()
		for {
			err := work(ctx, c, t)
			if err == nil || ctx.Err() != nil || errors.Is(err, ErrStale) {
				break
			}
			s.log.WarnContext(ctx, "campaign is interrupted", "campaign", c.ID, "app", c.App, "state", c.State, "error", err)
			dispatch.Wait(ctx, retryAfterFault)
		}
		s.mu.Lock()
		delete(s.tasks, c.Num)
		s.mu.Unlock()
		close(t.done)
		s.notify()
	})
}

// suppress winds up a campaign that was cancelled.
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

// end moves a campaign on when its work is done, unless somebody has moved it elsewhere meanwhile.
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
