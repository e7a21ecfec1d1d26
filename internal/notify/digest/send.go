package digest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// How sending paces itself.
const (
	atOnce       = 100                    // digests that leave together
	lookShared   = time.Second            // between two looks, since other nodes gather too
	lookAlone    = time.Hour              // the same, where none does
	retryFault   = time.Second            // after an error of the store
	retryRefused = 10 * time.Second       // before another attempt at a full mailbox, or one that was refused otherwise
	pruneEvery   = time.Minute            // between two runs of retention
	countEvery   = 30 * time.Second       // between two counts of what waits
	prunePause   = 20 * time.Millisecond  // between slices
	recoverable  = 30 * time.Second       // a digest that was sealed so long ago may have been stored
	settle       = 250 * time.Millisecond // between attempts of digests that could not be stored at all
)

// Run sends digests when they are due, as long as this node owns that work, and deletes old ones, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	own := s.cfg.Own
	if own == nil {
		own = lease.Alone(ctx)
	}
	release := own("all", s.send)
	var wg sync.WaitGroup
	wg.Go(func() { s.repeat(ctx, countEvery, s.Load) })
	wg.Go(func() { s.repeat(ctx, pruneEvery, s.prune) })
	<-ctx.Done()
	wg.Wait()
	release()
	return nil
}

func (s *Service) repeat(ctx context.Context, every time.Duration, work func(context.Context) error) {
	for pause.For(ctx, every) {
		if err := work(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "upkeep of digests failed, will try again", "error", err)
		}
	}
}

func (s *Service) prune(ctx context.Context) error {
	for {
		more, err := s.cfg.Store.Prune(ctx, s.cfg.Now().Add(-s.cfg.Retain))
		if err != nil || !more || !pause.For(ctx, prunePause) {
			return err
		}
	}
}

// wakeAt lets the sender look again at a time, in Unix milliseconds; 0: it need not.
func (s *Service) wakeAt(at int64) {
	if at == 0 || at >= s.next.Load() {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// send sends what is due until ctx ends.
func (s *Service) send(ctx context.Context, held func() bool) {
	for ctx.Err() == nil {
		look := lookAlone
		if s.cfg.Own != nil {
			look = lookShared
		}
		now := s.cfg.Now()
		s.next.Store(now.Add(look).UnixMilli()) // what is gathered from here on and due before wakes it
		next, err := s.round(ctx, held)
		switch {
		case ctx.Err() != nil || !held():
			return
		case err != nil:
			s.cfg.Log.WarnContext(ctx, "digests could not be sent, will try again", "error", err)
			next = s.cfg.Now().Add(retryFault)
		case next.IsZero() || next.Sub(now) > look:
			next = now.Add(look)
		}
		s.next.Store(next.UnixMilli())
		s.sleep(ctx, next.Sub(s.cfg.Now()))
	}
}

func (s *Service) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.wake:
	case <-ctx.Done():
	}
}

// round sends all that is due, and returns when the next one is.
func (s *Service) round(ctx context.Context, held func() bool) (next time.Time, err error) {
	for {
		due, next, err := s.cfg.Store.Due(ctx, s.cfg.Now(), atOnce)
		if err != nil || len(due) == 0 {
			return next, err
		}
		if !held() {
			return next, nil
		}
		stored, err := s.leave(ctx, due)
		if err != nil {
			return next, err
		}
		if stored == 0 && !pause.For(ctx, settle) {
			return next, ctx.Err()
		}
	}
}

// leave sends digests, and returns how many are done with.
func (s *Service) leave(ctx context.Context, due []Ref) (done int, err error) {
	leaving, err := s.cfg.Store.Seal(ctx, due, s.cfg.Now())
	if err != nil {
		return 0, err
	}
	byApp := make(map[string][]*Leaving)
	var evs []event.Event
	now := s.cfg.Now()
	for i := range leaving {
		l := &leaving[i]
		evs = s.tell(evs, event.Expired, l.App, l.To, l.Expired, "", now)
		if len(l.Newest) == 0 {
			done++
			s.less(l.App, 1, len(l.Expired))
			s.metrics.digests.WithLabelValues("empty").Inc()
			continue
		}
		byApp[l.App] = append(byApp[l.App], l)
	}
	s.emit(evs)
	done += len(due) - len(leaving) // they had ended
	for app, list := range byApp {
		n, err := s.publish(ctx, app, list)
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// publish stores the notifications of an app's digests, and settles their items.
func (s *Service) publish(ctx context.Context, app string, list []*Leaving) (done int, err error) {
	var sent, lapsed []*Leaving
	var drafts []*notification.Draft
	var of []*Leaving
	for _, l := range list {
		there, err := s.stored(ctx, l)
		if err != nil {
			return 0, err
		}
		if there {
			sent = append(sent, l)
			continue
		}
		d, err := s.compose(ctx, l)
		switch {
		case err == nil:
			drafts, of = append(drafts, d), append(of, l)
		case !l.Expires.After(s.cfg.Now()):
			lapsed = append(lapsed, l)
		default:
			if err := s.postpone(ctx, l, err); err != nil {
				return 0, err
			}
		}
	}
	for i, r := range s.store(ctx, app, drafts) {
		switch why := failure(r); {
		case why == nil:
			sent = append(sent, of[i])
		case !of[i].Expires.After(s.cfg.Now()):
			lapsed = append(lapsed, of[i])
		default:
			if err := s.postpone(ctx, of[i], why); err != nil {
				return 0, err
			}
		}
	}
	if err := s.end(ctx, app, sent, Sent); err != nil {
		return 0, err
	}
	return len(sent) + len(lapsed), s.end(ctx, app, lapsed, Lapsed)
}

// stored reports whether a digest that was sealed a while ago has become a notification, which was not noted.
func (s *Service) stored(ctx context.Context, l *Leaving) (bool, error) {
	if s.cfg.Now().Sub(l.Sealed) < recoverable {
		return false, nil // a repeated publish is a duplicate
	}
	records, err := s.cfg.Mailboxes.Lookup(ctx, l.App, l.ID, l.To)
	if errors.Is(err, mailbox.ErrNotFound) {
		return false, nil
	}
	return len(records) > 0, err
}

// store publishes drafts. Steps that the app cannot use any more are left out: their publishes were accepted.
func (s *Service) store(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result {
	if len(drafts) == 0 {
		return nil
	}
	results := s.cfg.Publisher.Publish(ctx, app, drafts)
	for i := range results {
		for range notification.MaxSteps {
			at, bad := badStep(results[i].Err)
			if !bad || at >= len(drafts[i].Escalate) {
				break
			}
			s.cfg.Log.WarnContext(ctx, "a digest leaves out a step of its escalation", "app", app, "digest", drafts[i].ID, "channel", drafts[i].Escalate[at].Channel, "error", results[i].Err)
			drafts[i].Escalate = append(drafts[i].Escalate[:at:at], drafts[i].Escalate[at+1:]...)
			results[i] = s.cfg.Publisher.Publish(ctx, app, drafts[i:i+1])[0]
		}
	}
	return results
}

// badStep returns the step to which an error objects.
func badStep(err error) (at int, ok bool) {
	bad, ok := errors.AsType[*notification.FieldError](err)
	if !ok {
		return 0, false
	}
	text, ok := strings.CutPrefix(bad.Field, "escalate[")
	if !ok {
		return 0, false
	}
	number, _, _ := strings.Cut(text, "]")
	at, err = strconv.Atoi(number)
	return at, err == nil
}

// failure is why a digest is not stored; nil: it is, perhaps by an earlier attempt.
func failure(r delivery.Result) error {
	if r.Err != nil {
		return r.Err
	}
	return r.Copies[0].Err
}

// postpone lets a digest wait that could not be stored, so that the others leave.
func (s *Service) postpone(ctx context.Context, l *Leaving, why error) error {
	s.metrics.digests.WithLabelValues("retried").Inc()
	after := retryRefused
	if errors.Is(why, mailbox.ErrAway) || errors.Is(why, mailbox.ErrClosed) {
		after = retryFault
	}
	s.cfg.Log.WarnContext(ctx, "a digest could not be stored, will try again", "app", l.App, "digest", l.ID, "recipient", l.To, "after", after, "error", why)
	return s.cfg.Store.Postpone(ctx, Ref{l.App, l.ID}, s.cfg.Now().Add(after))
}

// end settles the items of digests.
func (s *Service) end(ctx context.Context, app string, list []*Leaving, as State) error {
	if len(list) == 0 {
		return nil
	}
	refs := make([]Ref, len(list))
	for i, l := range list {
		refs[i] = Ref{app, l.ID}
	}
	now := s.cfg.Now()
	items, err := s.cfg.Store.End(ctx, refs, as, now)
	if err != nil {
		return err
	}
	what, outcome := event.Digested, "sent"
	if as == Lapsed {
		what, outcome = event.Expired, "expired"
	}
	var evs []event.Event
	for i, l := range list {
		if items[i] == nil { // erased meanwhile, and so must be what has just been stored
			if _, err := s.cfg.Recall(ctx, app, l.ID, l.To); err != nil && !errors.Is(err, mailbox.ErrNotFound) {
				return err
			}
			continue
		}
		s.metrics.digests.WithLabelValues(outcome).Inc()
		detail := ""
		if as == Sent {
			detail = l.ID
		}
		evs = s.tell(evs, what, app, l.To, items[i], detail, now)
		s.less(app, 1, len(items[i]))
	}
	s.emit(evs)
	return nil
}
