package activity

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/sending/push"
)

// Run tells what has changed, until ctx ends. Its error is always nil.
func (s *Service) Run(ctx context.Context) error {
	var tasks errgroup.Group
	tasks.SetLimit(objectsAtOnce)
	defer func() { _ = tasks.Wait() }() // no task fails
	own := s.cfg.Own
	if own == nil {
		own = lease.Alone(ctx)
	}
	defer own("live activities", s.look)()
	for ctx.Err() == nil {
		w, wait := s.queue.next(s.cfg.Now())
		if w == nil {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
			case <-s.queue.wake:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		tasks.Go(func() error {
			s.queue.done(w, s.tell(ctx, w), s.cfg.Now())
			return nil
		})
	}
	return nil
}

// look reads the store for versions that were not told, at once and every minute, while this node holds the lease.
func (s *Service) look(ctx context.Context, held func() bool) {
	for first := true; ctx.Err() == nil; first = false {
		if held() {
			s.lookAtApps(ctx, first)
		}
		timer := time.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (s *Service) lookAtApps(ctx context.Context, first bool) {
	for _, app := range s.cfg.Channels.Apps(push.APNs) {
		if err := s.lookAt(ctx, app, first); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "live activities cannot be read", "app", app, "error", err)
		}
	}
}

// lookAt finds an app's endpoints that lack a version, and deletes those of activities that are over.
func (s *Service) lookAt(ctx context.Context, app string, first bool) error {
	active, disabled, err := s.cfg.Endpoints.EndpointCounts(ctx, app)
	if err != nil || active[push.LiveActivity]+disabled[push.LiveActivity] == 0 {
		return err
	}
	sel := &audience.Selection{Channels: []push.Channel{push.LiveActivity}}
	for after, more := int64(0), true; more; {
		list, next, rest, err := s.cfg.Endpoints.ListEndpoints(ctx, app, "", sel, after, page)
		if err != nil {
			return err
		}
		if err := s.lookAtPage(ctx, app, list, first); err != nil {
			return err
		}
		after, more = next, rest
	}
	return nil
}

func (s *Service) lookAtPage(ctx context.Context, app string, list []audience.Endpoint, first bool) error {
	now := s.cfg.Now()
	var keys []object.Key
	of := make(map[object.Key][]*audience.Endpoint)
	for i := range list {
		e := &list[i]
		a := e.Activity()
		if a.ChannelID == "" && now.Sub(e.LastSeenAt) > life {
			if err := s.cfg.Endpoints.DeleteEndpoint(ctx, app, e.ID); err != nil {
				return err
			}
			continue
		}
		k := object.Key{Group: a.Group, Object: a.Object}
		if e.Status != audience.Active {
			continue
		}
		if of[k] == nil {
			keys = append(keys, k)
		}
		of[k] = append(of[k], e)
	}
	if len(keys) == 0 {
		return nil
	}
	states, err := s.cfg.Objects.Get(ctx, app, keys)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if !first && now.Sub(states[i].UpdatedAt) < grace {
			continue
		}
		for _, e := range of[k] {
			if lacks(e, &states[i]) {
				s.want(name{app, k}, now)
				break
			}
		}
	}
	return nil
}
