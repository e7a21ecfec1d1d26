package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/sending/push"
)

// channelSender sends a job's deliveries of one channel.
type channelSender struct {
	d       *Dispatcher
	job     *Job
	backlog Backlog
	channel push.Channel
	policy  *push.Policy
	most    int // deliveries handled together: as many as may leave within peekAhead
	sender  push.Sender
	pacer   push.Pacer // the sender as a Pacer; nil: the sender does not report its pace

	inFlight chan struct{} // holds one entry for each claimed delivery whose result is not written yet
	attempts chan attempt  // to a worker that is idle
	workers  sync.WaitGroup
	wake     chan struct{}
	crowds   crowds
	refusal  atomic.Pointer[string] // why deliveries are held; nil: none are held
}

func newChannelSender(j *Job, ch push.Channel) *channelSender {
	p, most := policyOf(ch), peekMost
	if rate := j.work.Rate; rate > 0 {
		most = min(most, int(rate*peekAhead.Seconds()))
	}
	if p.Group == 1 {
		most = min(most, peekAlone)
	}
	return &channelSender{
		d: j.d, job: j, backlog: j.work.Backlog, channel: ch, policy: p, most: max(most, 1),
		inFlight: make(chan struct{}, p.InFlight), attempts: make(chan attempt), wake: make(chan struct{}, 1), crowds: make(crowds),
	}
}

func (l *channelSender) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

const (
	// peekAhead is the longest time for which deliveries wait in memory for their turn at the work's rate: the data read about their
	// endpoints must not become outdated.
	peekAhead = 2 * time.Second
	peekMost  = 500
	// peekAlone is the most deliveries that wait in memory for channels that claim one by one.
	peekAlone = 60
	// patience is how long a sender with many scopes waits for one of them; if the wait would be longer, other scopes are served first.
	patience = 250 * time.Millisecond
	// forever is longer than any wait.
	forever = 1000 * time.Hour
	// together is the longest time between deliveries that are claimed in one transaction.
	together = 5 * time.Millisecond
	// idleLook is the longest sleep of a sender: what wakes it could get lost with the store's clock.
	idleLook = 2 * time.Second
	// stopLook is the sleep after the backlog let the sender claim nothing, which means that the job is about to be stopped.
	stopLook = 50 * time.Millisecond
)

// run sends until no delivery is left or ctx ends.
func (l *channelSender) run(ctx context.Context) error {
	for ctx.Err() == nil {
		ds, err := l.backlog.Due(ctx, l.channel, l.d.now(), l.most)
		if err == nil && len(ds) > 0 {
			err = l.take(ctx, ds)
		} else if err == nil {
			var done bool
			if done, err = l.idle(ctx); done {
				return nil
			}
		}
		if err != nil {
			if IsStop(ctx, err) {
				return nil
			}
			return fmt.Errorf("send over %s: %w", l.channel, err)
		}
	}
	return nil
}

// idle waits for deliveries to send. done: there will never be any more.
func (l *channelSender) idle(ctx context.Context) (done bool, err error) {
	flying := len(l.inFlight) > 0 // read before NextDue: a delivery that ends in between is noticed in the next round
	at, ended, err := l.backlog.NextDue(ctx, l.channel)
	if err != nil {
		return false, err
	}
	d := idleLook
	if !at.IsZero() {
		d = min(d, max(at.Sub(l.d.now()), time.Millisecond))
	} else if ended && !flying {
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

// take handles each of these deliveries: it is sent, postponed, or ended unsent. When take returns, the backlog has stored which.
func (l *channelSender) take(ctx context.Context, ds []Delivery) (err error) {
	if l.sender, err = l.d.current(ctx, l.job.work.App, l.channel); err != nil {
		return err
	}
	l.pacer, _ = l.sender.(push.Pacer)
	b := batch{of: l, ctx: ctx}
	b.claims.SetLimit(claimsAtOnce)
	for i := range ds {
		if ctx.Err() != nil {
			break
		}
		b.take(&ds[i])
	}
	if ctx.Err() != nil {
		b.drop()
	} else {
		b.claim()
	}
	if err := b.claims.Wait(); err != nil {
		return err
	}
	if len(b.settled) > 0 {
		if err := l.finish(ctx, b.settled); err != nil {
			return err
		}
		l.d.metrics.count(b.settled)
	} else if b.asked && b.claimed.Load() == 0 {
		pause.For(ctx, stopLook)
	}
	return nil
}

// finish stores the results of deliveries that need not be sent now, and tries until it succeeds.
func (l *channelSender) finish(ctx context.Context, settled []Result) error {
	for {
		err := l.backlog.Finish(ctx, settled, l.d.now())
		if err == nil || errors.Is(err, ErrStale) || !pause.For(ctx, retryAfterFault) {
			return err
		}
		l.job.log.WarnContext(ctx, "deliveries cannot be put off yet", "error", err)
	}
}

// batch holds the deliveries that a sender has handled and not yet reported to its backlog.
type batch struct {
	of      *channelSender
	ctx     context.Context
	group   []Delivery // deliveries whose turn is now, each with a place in flight
	settled []Result   // need no sending
	claims  errgroup.Group
	claimed atomic.Int64
	asked   bool
}

func (b *batch) take(d *Delivery) {
	l := b.of
	now := l.d.now()
	if res, ok := l.gate(d, now); ok {
		b.settled = append(b.settled, res)
		return
	}
	place, res, ok := l.place(d, now)
	if ok {
		res, ok = b.enter(d, place.scope, now)
	}
	if !ok {
		b.settled = append(b.settled, res)
		return
	}
	if !b.depart(d, place) {
		d.scope.Leave()
	}
}

// depart waits for the delivery's turn and adds it to the group that is sent now. False: it is not sent now.
func (b *batch) depart(d *Delivery, p place) bool {
	l := b.of
	turn, res, ok := l.turn(d, p, l.d.now())
	if !ok {
		b.settled = append(b.settled, res)
		return false
	}
	if turn.at.Sub(l.d.now()) > together || len(b.group) >= l.policy.Group || len(l.inFlight) == cap(l.inFlight) {
		b.claim()
	}
	waited := pause.For(b.ctx, turn.at.Sub(l.d.now()))
	begun := turn.begin()
	if !waited {
		return false
	}
	if now := l.d.now(); !begun || turn.scope.Stopped(turn.opens, now) {
		b.settled = append(b.settled, d.again(turn.scope.book(now)))
		return false
	}
	select {
	case l.inFlight <- struct{}{}:
	case <-b.ctx.Done():
		return false
	}
	b.group = append(b.group, *d)
	return true
}

// claimsAtOnce is how many groups of a sender may be in the process of being stored: they share commits.
const claimsAtOnce = 4

// claim marks the group as being sent in the backlog, and sends the marked deliveries.
func (b *batch) claim() {
	if len(b.group) == 0 {
		return
	}
	l, group, sender := b.of, b.group, b.of.sender
	b.group, b.asked = nil, true
	b.claims.Go(func() error {
		claimed, err := l.backlog.Claim(b.ctx, group, l.d.now())
		l.release(group, claimed)
		b.claimed.Add(int64(len(claimed)))
		for i := range claimed {
			l.start(attempt{delivery: &claimed[i], sender: sender})
		}
		return err
	})
}

// drop releases deliveries that will not be sent now.
func (b *batch) drop() {
	b.of.release(b.group, nil)
	b.group = nil
}

// release frees the places of the group's deliveries that were not claimed.
func (l *channelSender) release(group, claimed []Delivery) {
	if len(claimed) == len(group) {
		return
	}
	for i := range group {
		if !slices.ContainsFunc(claimed, func(d Delivery) bool { return d.Row == group[i].Row }) {
			group[i].scope.Leave()
			<-l.inFlight
		}
	}
}

// gate finds deliveries that must not be sent, or not now.
func (l *channelSender) gate(d *Delivery, now time.Time) (Result, bool) {
	switch {
	case d.Left:
		return d.ends(Suppressed, "the subscriber has left"), true
	case d.Disabled != "":
		return d.ends(Suppressed, "the endpoint is disabled: "+d.Disabled), true
	}
	from, until := l.backlog.Window(d, now)
	switch {
	case !now.Before(until):
		return d.ends(Expired, "nobody took it in time"), true
	case from.After(now):
		return d.again(from), true
	}
	return Result{}, false
}
