package endpoint

import (
	"context"
	"encoding/json"
	"errors"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// The functions below serve visitors of pages that used Perfecty Push, where anyone with a visitor's id may replace or end the
// subscription. So they apply only to anonymous Web Push endpoints.

func visitors(e *audience.Endpoint) bool { return e.Channel == push.WebPush && e.Recipient == "" }

// RegisterVisitor registers a visitor's subscription under an id that is a UUID. If the visitor's former endpoint still exists, the visitor
// keeps it, with the new subscription. A zero id in had means that there was none before.
func (s *Service) RegisterVisitor(ctx context.Context, app string, subscription json.RawMessage, had audience.ID) (id audience.ID, created bool, err error) {
	e := audience.Endpoint{Channel: push.WebPush, Address: subscription, ID: audience.NewUUID()}
	if err := s.check(&Holder{App: app}, &e); err != nil {
		return id, false, err
	}
	if had != (audience.ID{}) {
		if moved, err := s.moveVisitor(ctx, app, had, e.Address); err != nil || moved {
			return had, false, err
		}
	}
	done, err := s.register(ctx, app, audience.Registration{Endpoint: e})
	return done.Endpoint.ID, done.Created, err
}

// moveVisitor gives a known visitor a new subscription. It returns false if the visitor is unknown, or another endpoint has the
// subscription already.
func (s *Service) moveVisitor(ctx context.Context, app string, id audience.ID, address json.RawMessage) (moved bool, err error) {
	_, err = s.cfg.Store.UpdateEndpoint(ctx, app, id, false, func(e *audience.Endpoint) error {
		if !visitors(e) {
			return audience.ErrNotFound
		}
		e.Address, e.Status, e.DisabledReason, e.LastSeenAt = address, audience.Active, "", s.cfg.Now()
		return nil
	})
	if errors.Is(err, audience.ErrNotFound) || errors.Is(err, audience.ErrTaken) {
		return false, nil
	}
	return err == nil, err
}

// FindVisitor returns a visitor's endpoint; found is false if there is none with this id.
func (s *Service) FindVisitor(ctx context.Context, app string, id audience.ID) (e audience.Endpoint, found bool, err error) {
	e, err = s.cfg.Store.Endpoint(ctx, app, id)
	if errors.Is(err, audience.ErrNotFound) {
		return e, false, nil
	}
	return e, err == nil && visitors(&e), err
}
