package campaign

import (
	"context"

	"godwit.dev/godwit/internal/sending/push"
)

// Channels returns the channels over which a campaign with this definition would be sent now, or a ChannelError.
func (s *Service) Channels(ctx context.Context, app string, spec *Spec) ([]push.Channel, error) {
	return s.channels(ctx, &Campaign{App: app, Spec: *spec})
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
