package campaign

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/pace"
	"godwit.dev/godwit/internal/push"
)

// lane sends a campaign's deliveries of one channel.
type lane struct {
	r      *run
	ch     push.Channel
	policy policy
	sender push.Sender
	pacer  push.Pacer // of the sender; nil: it does not know how fast it may go

	inFlight chan struct{} // holds one entry for each delivery claimed and not written back yet
	jobs     chan job      // to a worker that has nothing to do
	workers  sync.WaitGroup
	wake     chan struct{}
	refusal  atomic.Pointer[string] // why deliveries are held back; nil: none are
}

func newLane(r *run, ch push.Channel) *lane {
	l := &lane{r: r, ch: ch, policy: policies[ch], jobs: make(chan job), wake: make(chan struct{}, 1)}
	l.inFlight = make(chan struct{}, l.policy.inFlight)
	return l
}

// look finds the channel's sender, which is another one after its settings have changed.
func (l *lane) look(ctx context.Context) error {
	sender, err := l.r.s.cfg.Senders.Sender(ctx, l.r.c.App, l.ch)
	if err != nil {
		return &ChannelError{Channel: l.ch, Err: err}
	}
	l.sender = sender
	l.pacer, _ = sender.(push.Pacer)
	return nil
}

func (l *lane) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

const (
	// peekAhead bounds the time for which deliveries wait in memory for their turn at the campaign's rate: what is
	// known of their endpoints must not grow old.
	peekAhead = 2 * time.Second
	peekMost  = 500
	// patience is how long a lane with many scopes waits for one of them; longer, and others' turn comes first.
	patience = 250 * time.Millisecond
	// forever is longer than anything waits.
	forever = 1000 * time.Hour
	// together is how close in time deliveries must leave to be claimed in one transaction.
	together = 5 * time.Millisecond
	// idleLook is how long a lane sleeps at most: what wakes it could get lost with the store's clock.
	idleLook = 2 * time.Second
)

// run sends until nothing is left to be sent or ctx ends.
func (l *lane) run(ctx context.Context) error {
	for ctx.Err() == nil {
		targets, err := l.r.s.store.Due(ctx, l.r.c.Num, l.ch, l.r.s.cfg.Now(), l.batch())
		if err == nil && len(targets) > 0 {
			err = l.look(ctx)
		}
		if err == nil && len(targets) > 0 {
			err = l.take(ctx, targets)
		} else if err == nil {
			var done bool
			if done, err = l.idle(ctx); done {
				return nil
			}
		}
		if err != nil {
			if isStop(ctx, err) {
				return nil
			}
			return fmt.Errorf("send %s over %s: %w", l.r.c.ID, l.ch, err)
		}
	}
	return nil
}

// batch is how many deliveries to look at: no more than leave within peekAhead.
func (l *lane) batch() int {
	if l.r.pace == nil && !l.policy.solo {
		return peekMost
	}
	most := peekMost
	if rate := float64(l.r.c.Spec.Rate); rate > 0 {
		most = min(most, int(rate*peekAhead.Seconds()))
	}
	if l.policy.group == 1 {
		most = min(most, 60)
	}
	return max(most, 1)
}

// idle waits for something to do. done: there will be nothing.
func (l *lane) idle(ctx context.Context) (done bool, err error) {
	// In this order: what is enumerated or ends after the first two looks shows in the third.
	enumerated, flying := l.r.enumerated.Load(), len(l.inFlight) > 0
	at, ok, err := l.r.s.store.NextDue(ctx, l.r.c.Num, l.ch)
	if err != nil {
		return false, err
	}
	d := idleLook
	if ok {
		d = min(d, max(at.Sub(l.r.s.cfg.Now()), time.Millisecond))
	} else if enumerated && !flying {
		return true, nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-l.wake:
	case <-t.C:
	}
	return false, nil
}

// take sees to each of these deliveries: it leaves, or is put off, or need not be sent. When it returns, the store
// knows which.
func (l *lane) take(ctx context.Context, targets []Target) error {
	b := batch{lane: l, ctx: ctx}
	b.claims.SetLimit(claimsAtOnce)
	for i := range targets {
		if ctx.Err() != nil {
			break
		}
		b.take(&targets[i])
	}
	return b.close()
}

// batch is what a lane has looked at and not yet told the store.
type batch struct {
	lane    *lane
	ctx     context.Context
	group   []Target // their turn is now and each has its place in flight
	settled []Result // need no sending
	claims  errgroup.Group
	claimed atomic.Int64
	asked   bool
}

func (b *batch) take(t *Target) {
	l := b.lane
	now := l.r.s.cfg.Now()
	if res, ok := l.gate(t, now); ok {
		b.settled = append(b.settled, res)
		return
	}
	turn, res, ok := l.turn(t, now)
	if !ok {
		b.settled = append(b.settled, res)
		return
	}
	if turn.at.Sub(now) > together || len(b.group) >= l.policy.group || !l.free() {
		b.claim()
	}
	if !wait(b.ctx, turn.at.Sub(l.r.s.cfg.Now())) {
		return
	}
	if until, paused := turn.pacer.Paused(l.r.s.cfg.Now()); paused && until.After(turn.at) {
		turn.pacer.Put()
		b.settled = append(b.settled, again(t, turn.pacer.Book(l.r.s.cfg.Now())))
		return
	}
	select {
	case l.inFlight <- struct{}{}:
	case <-b.ctx.Done():
		return
	}
	b.group = append(b.group, *t)
}

// free reports whether there is room for one more in flight.
func (l *lane) free() bool { return len(l.inFlight) < cap(l.inFlight) }

// claimsAtOnce is how many groups of a lane may be on their way to the disk: they share its commits.
const claimsAtOnce = 4

// claim has the group marked as being sent, and sends those that were.
func (b *batch) claim() {
	if len(b.group) == 0 {
		return
	}
	l, group, sender := b.lane, b.group, b.lane.sender
	b.group, b.asked = nil, true
	b.claims.Go(func() error {
		claimed, err := l.r.s.store.Claim(b.ctx, l.r.s.epoch, l.r.c.Num, group, l.r.s.cfg.Now())
		for range len(group) - len(claimed) {
			<-l.inFlight
		}
		b.claimed.Add(int64(len(claimed)))
		for i := range claimed {
			l.start(job{target: &claimed[i], sender: sender})
		}
		return err
	})
}

// drop gives back what is not going to be sent now.
func (b *batch) drop() {
	for range b.group {
		<-b.lane.inFlight
	}
	b.group = nil
}

func (b *batch) close() error {
	if b.ctx.Err() != nil {
		b.drop()
	} else {
		b.claim()
	}
	if err := b.claims.Wait(); err != nil {
		return err
	}
	l := b.lane
	if len(b.settled) > 0 {
		if err := l.r.s.store.Finish(b.ctx, l.r.s.epoch, l.r.c.Num, b.settled, l.r.s.cfg.Now()); err != nil {
			return err
		}
		for i := range b.settled {
			l.r.s.metrics.count(l.ch, b.settled[i].Outcome)
		}
		return nil
	}
	if b.asked && b.claimed.Load() == 0 {
		// Nothing may be sent any more, which this lane is about to be told.
		wait(b.ctx, 50*time.Millisecond)
	}
	return nil
}

// turn is when a message may leave.
type turn struct {
	at    time.Time
	pacer *pace.Pacer
}

// turn finds the moment that all limits allow. Not ok: that is too far off, and the result says when to look again.
func (l *lane) turn(t *Target, now time.Time) (turn, Result, bool) {
	if l.pacer != nil {
		t.pace = l.pacer.Pace(t.Address)
	}
	limits := t.pace
	sc := pace.Scope{App: l.r.c.App, Channel: l.ch, Name: limits.Scope}
	ps := l.r.s.pacers
	if why := ps.Refused(sc); why != "" {
		l.refusal.Store(&why)
		return turn{}, held(t), false
	}
	chat := pace.Scope{App: l.r.c.App, Channel: l.ch, Name: limits.Scope + "\n" + limits.Chat}
	if limits.Chat != "" {
		if at, ok := ps.Chat(chat, now); !ok {
			return turn{}, again(t, at), false
		}
	}
	limit := patience
	if l.policy.solo {
		limit = forever
	}
	p := ps.Of(sc, limits, now)
	at, ok := p.Slot(now, limit)
	if !ok {
		return turn{}, again(t, p.Book(now)), false
	}
	if l.r.pace != nil {
		if own, _ := l.r.pace.Slot(now, forever); own.After(at) {
			at = own
		}
	}
	if limits.Chat != "" {
		ps.SentTo(chat, at, limits.Every)
	}
	return turn{at: at, pacer: p}, Result{}, true
}

// gate finds deliveries that are not to be sent, or not now.
func (l *lane) gate(t *Target, now time.Time) (Result, bool) {
	switch {
	case t.Left:
		return t.ends(Suppressed, "the subscriber has left"), true
	case t.Disabled != "":
		return t.ends(Suppressed, "the endpoint is disabled: "+t.Disabled), true
	case !now.Before(l.r.expires(t, now)):
		return t.ends(Expired, "nobody took it in time"), true
	}
	if at := l.r.quiet.next(now, t.Timezone); at.After(now) {
		return again(t, at), true
	}
	return Result{}, false
}

// ends is a final result. What may have arrived before does not become something else by failing later.
func (t *Target) ends(o Outcome, detail string) Result {
	if t.Unsure && o != Accepted {
		o, detail = Unknown, "an earlier attempt may have arrived; then: "+detail
	}
	return Result{Row: t.Row, Channel: t.Channel, Outcome: o, Detail: detail, Attempts: t.Attempts, Unsure: t.Unsure}
}

// again puts a delivery off that was not tried.
func again(t *Target, at time.Time) Result {
	return Result{Row: t.Row, Channel: t.Channel, Outcome: Pending, Due: at, Attempts: t.Attempts, Unsure: t.Unsure}
}

// held puts a delivery off until a person has looked.
func held(t *Target) Result {
	res := again(t, time.Time{})
	res.Held = true
	return res
}
