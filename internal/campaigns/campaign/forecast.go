package campaign

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// Sendable checks a definition as a campaign that is sent at sendAt, or at once, and returns the channels over which it would be sent.
// It stores nothing.
func (s *Service) Sendable(ctx context.Context, app string, spec Spec, sendAt time.Time) ([]push.Channel, error) {
	c, err := s.created(ctx, app, spec, sendAt)
	if err != nil {
		return nil, err
	}
	return s.channels(ctx, c)
}

// Paces returns how many messages a second the providers of channels take from this app. A channel whose provider publishes no rate is
// absent.
func (s *Service) Paces(ctx context.Context, app string, chs []push.Channel) map[push.Channel]float64 {
	paces := make(map[push.Channel]float64)
	for _, ch := range chs {
		sender, err := s.dispatch.Sender(ctx, app, ch)
		if err != nil {
			continue
		}
		if p, ok := sender.(push.Pacer); ok {
			if rate := p.Pace(nil).Rate; rate > 0 {
				paces[ch] = rate
			}
		}
	}
	return paces
}
