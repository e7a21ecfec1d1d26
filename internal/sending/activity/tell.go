package activity

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/sending/push"
)

// tell tells the activities of an object its present state. It returns how long until those that could not be told are tried again; 0: all
// were told.
func (s *Service) tell(ctx context.Context, w *waiting) (retry time.Duration) {
	now := s.cfg.Now()
	if left := s.resting(w.app, now); left > 0 {
		return left
	}
	var again retries
	some, err := s.some(ctx, w.app)
	if !some && err == nil {
		return 0
	}
	err = s.followers(ctx, w.name, func(list []audience.Endpoint) error {
		states, err := s.cfg.Objects.Get(ctx, w.app, []object.Key{w.key})
		if err != nil {
			return err
		}
		var tasks errgroup.Group
		tasks.SetLimit(updatesAtOnce)
		for i := range list {
			if e := &list[i]; lacks(e, &states[0]) {
				tasks.Go(func() error {
					again.add(s.tellOne(ctx, e, &states[0], w.tries))
					return nil
				})
			}
		}
		return tasks.Wait()
	})
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "live activities are told later", "app", w.app, "error", err)
		again.add(firstRetry)
	}
	if again.soonest == 0 {
		w.tries = 0
	} else {
		w.tries++
	}
	return again.soonest
}

// retries is the soonest of several retries.
type retries struct {
	mu      sync.Mutex
	soonest time.Duration // 0: none
}

func (r *retries) add(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if after > 0 && (r.soonest == 0 || after < r.soonest) {
		r.soonest = after
	}
}

// followers reads the active endpoints that follow an object, in pages.
func (s *Service) followers(ctx context.Context, n name, each func([]audience.Endpoint) error) error {
	sel := &audience.Selection{Channels: []push.Channel{push.LiveActivity}, Where: audience.Compare{
		Field: audience.Field{Name: audience.FollowsAttribute, Attribute: true}, Op: audience.Eq, Value: audience.Text(n.key.String()),
	}}
	for after, more := int64(0), true; more; {
		list, next, rest, err := s.cfg.Endpoints.ListEndpoints(ctx, n.app, audience.Active, sel, after, page)
		if err != nil {
			return err
		}
		if err := each(list); err != nil {
			return err
		}
		after, more = next, rest
	}
	return nil
}

// tellOne tells one endpoint, and returns after which time it has to be tried again; 0: not.
func (s *Service) tellOne(ctx context.Context, e *audience.Endpoint, st *object.State, tries int) (retry time.Duration) {
	if left := s.tooSoon(e.Number); left > 0 {
		return left
	}
	u, err := update(e, st)
	if err != nil { // a payload that cannot be a state
		s.results.WithLabelValues("failed").Inc()
		return s.remember(ctx, e, st)
	}
	err = s.send(ctx, e.App, &u)
	s.results.WithLabelValues(push.Outcome(err)).Inc()
	var gone *push.GoneError
	var objection *push.ObjectionError
	var permanent *push.PermanentError
	switch {
	case err == nil:
		return s.accepted(ctx, e, st, &u)
	case ctx.Err() != nil:
		return firstRetry
	case errors.As(err, &gone):
		return s.disable(ctx, e, gone.Reason, gone.Since)
	case errors.As(err, &objection) && objection.Ended: // an activity is short, and its app registers the next one anew
		return s.disable(ctx, e, objection.Reason, time.Time{})
	case errors.As(err, &permanent):
		s.cfg.Log.WarnContext(ctx, "a version is not shown by a live activity", "app", e.App, "endpoint", e.ID.String(), "error", push.ForLog(err))
		return s.remember(ctx, e, st)
	}
	return s.later(e.App, err, tries)
}

func (s *Service) send(ctx context.Context, app string, u *push.ActivityUpdate) error {
	sender, err := s.cfg.Channels.Sender(ctx, app, push.APNs)
	if err != nil {
		return err
	}
	activities, ok := sender.(push.ActivityUpdater)
	if !ok {
		return &push.PermanentError{Reason: "the channel has no live activities"}
	}
	timeout := push.LiveActivity.Find().Policy.Timeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("no answer in "+timeout.String()))
	defer cancel()
	return activities.UpdateActivity(ctx, u)
}

// accepted notes that an endpoint has a state. An activity that has ended takes nothing any more.
func (s *Service) accepted(ctx context.Context, e *audience.Endpoint, st *object.State, u *push.ActivityUpdate) time.Duration {
	if u.End && e.Activity().ChannelID == "" {
		return s.disable(ctx, e, ended, time.Time{})
	}
	return s.remember(ctx, e, st)
}

// ended is the reason of an endpoint whose activity has ended.
const ended = "the activity has ended"

// remember notes that an endpoint has a state. If another node has told it something meanwhile, it is unknown which of both came last: the
// endpoint is told once more.
func (s *Service) remember(ctx context.Context, e *audience.Endpoint, st *object.State) time.Duration {
	before := e.Attributes[audience.ToldAttribute]
	concurrent := false
	_, err := s.cfg.Endpoints.UpdateEndpoint(ctx, e.App, e.ID, true, func(now *audience.Endpoint) error {
		all := audience.Attributes{}
		maps.Copy(all, now.Attributes)
		if concurrent = all[audience.ToldAttribute] != before; concurrent {
			delete(all, audience.ToldAttribute)
		} else {
			all[audience.ToldAttribute] = audience.Text(version(st))
		}
		now.Attributes = all
		return nil
	})
	switch {
	case errors.Is(err, audience.ErrNotFound):
		return 0
	case err != nil && ctx.Err() == nil:
		s.cfg.Log.WarnContext(ctx, "a live activity is told once more what it has", "app", e.App, "endpoint", e.ID.String(), "error", err)
		return firstRetry
	case concurrent:
		return every
	}
	return 0
}

func (s *Service) disable(ctx context.Context, e *audience.Endpoint, reason string, since time.Time) time.Duration {
	if !e.EndsWith(since) {
		return 0
	}
	if err := s.cfg.Endpoints.DisableEndpoint(ctx, e.Number, reason); err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "a live activity that is over stays enabled", "app", e.App, "endpoint", e.ID.String(), "error", err)
		return firstRetry
	}
	return 0
}

// later returns when to try again after an error that passes, and has the app rest if all its messages get it.
func (s *Service) later(app string, err error, tries int) time.Duration {
	wait := min(firstRetry<<min(tries, 8), lastRetry)
	var config *push.ConfigError
	var retry *push.RetryError
	switch {
	case errors.As(err, &config):
		wait = rest
		s.rest(app, wait)
	case errors.As(err, &retry):
		wait = max(wait, retry.After)
		if retry.Credential {
			s.rest(app, wait)
		}
	}
	return wait
}

func (s *Service) rest(app string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rests[app] = s.cfg.Now().Add(d)
}

func (s *Service) resting(app string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.rests[app].Sub(now))
}

// tooSoon counts an update of an endpoint, and returns how long it has to wait if the last one was less than a second ago.
func (s *Service) tooSoon(number int64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	if left := s.told[number].Add(every).Sub(now); left > 0 {
		return left
	}
	if len(s.told) >= maxQueued {
		maps.DeleteFunc(s.told, func(_ int64, at time.Time) bool { return !at.Add(every).After(now) })
	}
	s.told[number] = now
	return 0
}
