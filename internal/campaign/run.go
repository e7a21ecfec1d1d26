package campaign

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/pace"
	"godwit.dev/godwit/internal/push"
)

// run is one campaign being sent, from its start or resumption to its end or the next pause.
type run struct {
	s     *Service
	c     *Campaign
	t     *task
	quiet *quiet
	pace  *pace.Pacer // the campaign's own rate; nil: none was asked for
	key   []byte      // signs tracking tokens

	enumerated atomic.Bool
	lanes      []*lane
	results    chan landed
}

// landed is a result on its way to the store; its place in flight is free once it is there.
type landed struct {
	Result
	lane *lane
}

const (
	// resultQueue lets requests end while a batch of outcomes is being committed.
	resultQueue = 1024
	// resultBatch is how many outcomes one transaction takes at most.
	resultBatch = 500
)

// send works on a campaign until every delivery has its outcome or ctx ends.
func (s *Service) send(ctx context.Context, c *Campaign, t *task) error {
	c, err := s.store.Get(ctx, c.App, c.ID)
	if err != nil {
		return err
	}
	r := &run{s: s, c: c, t: t, results: make(chan landed, resultQueue)}
	if c.Spec.Quiet != nil {
		if r.quiet, err = c.Spec.Quiet.parse(); err != nil {
			return err
		}
	}
	if rate := float64(c.Spec.Rate); rate > 0 {
		r.pace = pace.Fixed(rate, s.cfg.Now())
	}
	if r.key, err = s.trackKey(ctx, c.App); err != nil {
		return err
	}
	if !c.Enumerated && slices.Contains(c.Channels, push.Live) {
		if err := s.store.EnsureLive(ctx, c.App, c.Spec.Audience.Recipients); err != nil {
			return err
		}
	}
	r.enumerated.Store(c.Enumerated)
	for _, ch := range c.Channels {
		r.lanes = append(r.lanes, newLane(r, ch))
	}
	// What a person has looked at since is tried again.
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

// work enumerates and sends side by side. Outcomes are written until the last one has come, also when ctx ends.
func (r *run) work(ctx context.Context) error {
	var writing sync.WaitGroup
	var written error
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	writing.Go(func() {
		if written = r.write(); written != nil {
			stop()
		}
	})
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.enumerate(gctx) })
	for _, l := range r.lanes {
		g.Go(func() error { return l.run(gctx) })
	}
	err := g.Wait()
	for _, l := range r.lanes {
		l.finish()
	}
	close(r.results)
	writing.Wait()
	return errors.Join(written, err)
}

// enumerate writes a delivery for every endpoint of the audience.
func (r *run) enumerate(ctx context.Context) error {
	for !r.enumerated.Load() {
		n, done, err := r.s.store.Enumerate(ctx, r.s.epoch, r.c.Num, slice, r.due)
		if err != nil {
			if isStop(ctx, err) {
				return nil
			}
			return fmt.Errorf("enumerate the audience of %s: %w", r.c.ID, err)
		}
		if done {
			r.enumerated.Store(true)
		}
		if n > 0 || done {
			r.kick()
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

func (r *run) kick() {
	for _, l := range r.lanes {
		l.kick()
	}
}

// due says when an endpoint's turn is: spread over the time asked for by a number that stays the same, and not in its
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

// write commits outcomes as they come: whatever has come while one batch was being committed is the next.
func (r *run) write() error {
	var failed error
	batch := make([]landed, 0, resultBatch)
	for first := range r.results {
		runtime.Gosched() // whose answer has come as well goes first and shares the commit
		batch = append(batch[:0], first)
	fill:
		for len(batch) < resultBatch {
			select {
			case l, ok := <-r.results:
				if !ok {
					break fill
				}
				batch = append(batch, l)
			default:
				break fill
			}
		}
		if failed == nil {
			failed = r.commit(batch)
		}
		for _, l := range batch {
			<-l.lane.inFlight
			l.lane.kick()
		}
	}
	return failed
}

// commit writes outcomes. They are not given up while the process lives: without them, what was sent would count as
// unknown.
func (r *run) commit(batch []landed) error {
	results := make([]Result, len(batch))
	ended := 0
	for i, l := range batch {
		results[i] = l.Result
		if l.Outcome != Pending {
			ended++
		}
		r.s.metrics.count(l.Channel, l.Outcome)
	}
	for {
		now := r.s.cfg.Now()
		err := r.s.store.Finish(context.WithoutCancel(r.t.hard), r.s.epoch, r.c.Num, results, now)
		switch {
		case err == nil:
			r.t.meter.add(now, ended)
			return nil
		case errors.Is(err, ErrStale) || r.t.hard.Err() != nil:
			return fmt.Errorf("write outcomes of %s: %w", r.c.ID, err)
		}
		r.s.log.WarnContext(r.t.hard, "outcomes cannot be written yet", "campaign", r.c.ID, "error", err)
		wait(r.t.hard, retryAfterFault)
	}
}

// fewHeld is the share of a campaign's deliveries up to which those held back by a place that refuses our credential
// are given up: a stranger's server that says 403 must not keep a campaign from ending.
const fewHeld = 0.01

// end settles what is left when no lane has anything to do: nothing, or what channels hold back.
func (r *run) end(ctx context.Context) error {
	f, err := r.s.store.Figures(ctx, r.c.Num)
	if err != nil {
		return err
	}
	open, why := f.Open(), r.refusal()
	switch {
	case open == 0:
		return r.s.end(ctx, r.c, Running, Completed, "")
	case why == "":
		return nil // became pending again a moment ago: the engine looks once more
	case float64(open) > fewHeld*float64(f.Total()):
		return r.s.end(ctx, r.c, Running, Paused, fmt.Sprintf("%d deliveries wait: %s", open, why))
	}
	if err := r.s.sweep(ctx, r.c, Sweep{From: Pending, Held: true, To: Refused, Detail: "not sent: " + why}); err != nil {
		return err
	}
	return r.s.end(ctx, r.c, Running, Completed, "")
}

// refusal is what the first lane that holds something back was told.
func (r *run) refusal() string {
	for _, l := range r.lanes {
		if why := l.refusal.Load(); why != nil {
			return *why
		}
	}
	return ""
}

// person is whom a target's message is rendered for.
func (t *Target) person() Person {
	return Person{Recipient: t.Recipient, Locale: t.Locale, Attributes: t.Attributes}
}

// request makes the message to one endpoint.
func (r *run) request(t *Target, now time.Time) push.Request {
	id := DeliveryID(r.c.ID, t.EndpointID.String())
	q := push.Request{
		ID: id, App: r.c.App, Endpoint: t.EndpointID.String(), Recipient: t.Recipient, Address: t.Address,
		Content: r.c.Spec.Render(t.person(), t.Channel), Urgency: r.c.Spec.Urgency(), Collapse: r.c.Spec.Collapse,
		ExpiresAt: r.expires(t, now),
	}
	if r.c.Spec.Tracked() {
		q.Track = r.c.App + tokenSeparator + trackToken(r.key, r.c.Num, t.Row)
		if redirects(t.Channel) {
			q.Content.URL = r.s.redirect(r.key, r.c.App, r.c.Num, t.Row, q.Content.URL)
		}
	}
	return q
}

// expires is when a delivery's time is over.
func (r *run) expires(t *Target, now time.Time) time.Time {
	first := t.First
	if first.IsZero() {
		first = now
	}
	at := first.Add(r.c.Spec.Life())
	if e := r.c.Spec.Expires; !e.IsZero() && e.Before(at) {
		at = e
	}
	return at
}
