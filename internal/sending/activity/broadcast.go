package activity

import (
	"context"
	"errors"
	"fmt"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/sending/push"
)

// Broadcast is an object's broadcast channel: everybody who follows it gets each version by one message.
type Broadcast struct {
	Key       object.Key
	ChannelID string // at the provider
	Keep      bool   // the provider keeps the latest version for devices that are off
}

// ErrNoBroadcast says that an object has no broadcast channel.
var ErrNoBroadcast = errors.New("the object has no broadcast channel")

// Broadcast returns the broadcast channel of an object, or ErrNoBroadcast.
func (s *Service) Broadcast(ctx context.Context, app string, k object.Key) (Broadcast, error) {
	e, err := s.broadcastOf(ctx, app, k)
	if err != nil {
		return Broadcast{}, err
	}
	a := e.Activity()
	return Broadcast{k, a.ChannelID, a.Keep}, nil
}

func (s *Service) broadcastOf(ctx context.Context, app string, k object.Key) (found audience.Endpoint, err error) {
	err = s.followers(ctx, name{app, k}, func(list []audience.Endpoint) error {
		for i := range list {
			if list[i].Activity().ChannelID != "" {
				found = list[i]
			}
		}
		return nil
	})
	if err == nil && found.Number == 0 {
		err = ErrNoBroadcast
	}
	return found, err
}

// MakeBroadcast gives an object a broadcast channel, unless it has one. id names a channel that exists at the provider; empty: a new one is
// made. If the server ends between both, the provider has a channel that no object has.
func (s *Service) MakeBroadcast(ctx context.Context, app string, k object.Key, id string, keep bool) (made Broadcast, created bool, err error) {
	s.making.Lock()
	defer s.making.Unlock()
	if made, err = s.Broadcast(ctx, app, k); !errors.Is(err, ErrNoBroadcast) {
		return made, false, err
	}
	provider, err := s.broadcaster(ctx, app)
	if err != nil {
		return made, false, err
	}
	if id == "" {
		if id, err = provider.CreateBroadcast(ctx, keep); err != nil {
			return made, false, fmt.Errorf("make a broadcast channel for %s: %w", k, err)
		}
	} else if keep, err = provider.FindBroadcast(ctx, id); err != nil {
		return made, false, fmt.Errorf("find broadcast channel %s: %w", id, err)
	}
	made = Broadcast{k, id, keep}
	e := audience.Endpoint{Channel: push.LiveActivity}
	if e.Address, err = audience.MarshalAddress(audience.ActivityAddress{ChannelID: id, Keep: keep, Group: k.Group, Object: k.Object}); err != nil {
		return made, false, err
	}
	if err := e.Check(); err != nil {
		return made, false, err
	}
	done, err := s.cfg.Endpoints.Register(ctx, app, []audience.Registration{{Endpoint: e, Trusted: true}})
	if err == nil {
		err = done[0].Err
	}
	if err != nil {
		return made, false, fmt.Errorf("store broadcast channel %s of %s: %w", id, k, err)
	}
	s.Followed(&done[0].Endpoint)
	return made, true, nil
}

// DeleteBroadcast deletes an object's broadcast channel, at the provider first.
func (s *Service) DeleteBroadcast(ctx context.Context, app string, k object.Key) error {
	e, err := s.broadcastOf(ctx, app, k)
	if err != nil {
		return err
	}
	provider, err := s.broadcaster(ctx, app)
	if err != nil {
		return err
	}
	var gone *push.GoneError
	if err := provider.DeleteBroadcast(ctx, e.Activity().ChannelID); err != nil && !errors.As(err, &gone) {
		return fmt.Errorf("delete the broadcast channel of %s: %w", k, err)
	}
	if err := s.cfg.Endpoints.DeleteEndpoint(ctx, app, e.ID); err != nil && !errors.Is(err, audience.ErrNotFound) {
		return fmt.Errorf("forget the broadcast channel of %s: %w", k, err)
	}
	return nil
}

func (s *Service) broadcaster(ctx context.Context, app string) (push.Broadcaster, error) {
	sender, err := s.cfg.Channels.Sender(ctx, app, push.APNs)
	if err != nil {
		return nil, err
	}
	b, ok := sender.(push.Broadcaster)
	if !ok {
		return nil, &push.PermanentError{Reason: "the channel has no broadcasts"}
	}
	return b, nil
}
