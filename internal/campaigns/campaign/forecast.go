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

// Needs returns how long so many messages need: channels send beside each other, each at its provider's pace, and all together at most at the
// campaign's own rate. Without that rate, one provider that publishes none makes it unknown, which is 0.
func (s *Spec) Needs(messages map[push.Channel]int64, paces map[push.Channel]float64) (needs time.Duration) {
	at := func(n int64, rate float64) time.Duration {
		return time.Duration(float64(n) / rate * float64(time.Second))
	}
	known, all := true, int64(0)
	for ch, n := range messages {
		all += n
		if pace := paces[ch]; pace > 0 {
			needs = max(needs, at(n, pace))
		} else if n > 0 {
			known = false
		}
	}
	switch {
	case s.Rate > 0:
		return max(needs, at(all, float64(s.Rate)))
	case !known:
		return 0
	}
	return needs
}

// expected returns when the last message of a running campaign is sent; zero: it is not known. Messages that wait for the end of quiet hours,
// for their part of a spread, or for a local time, have that time in the store. Those whose turn comes in quiet hours rest, if these hold in
// one zone for all; whose quiet hours in zones of their own begin before their turn is not known.
func (s *Service) expected(ctx context.Context, v *View, now time.Time) (end time.Time, err error) {
	if !v.Enumerated || v.Open() == 0 || v.Spec.Decides() && v.Spec.Decision == nil {
		return end, nil // it ends some time after the decision
	}
	waiting, last, err := s.dueTimes(ctx, &v.Campaign, now)
	if err != nil {
		return end, err
	}
	var needs time.Duration
	if waiting && v.Rate > 0 {
		needs = time.Duration(float64(v.Open()) / v.Rate * float64(time.Second))
	} else {
		open := make(map[push.Channel]int64, len(v.Figures.Channels))
		for ch, counts := range v.Figures.Channels {
			open[ch] = counts[Pending] + counts[Sending]
		}
		needs = v.Spec.Needs(open, s.Paces(ctx, v.App, v.Campaign.Channels))
	}
	if needs == 0 && !last.After(now) {
		return end, nil
	}
	rest := v.Spec
	rest.Spread = 0 // each message has its time already
	end, _ = rest.End(now, needs)
	if last.After(end) {
		end = rest.atMost(last)
	}
	return end.Truncate(time.Millisecond), nil
}

// dueTimes reports whether a message of the campaign waits only for its turn, and when the last of those becomes due that have a time.
func (s *Service) dueTimes(ctx context.Context, c *Campaign, now time.Time) (waiting bool, last time.Time, err error) {
	for _, ch := range c.Channels {
		first, ok, err := s.store.NextDue(ctx, c.Num, ch)
		if err != nil {
			return waiting, last, err
		}
		waiting = waiting || ok && !first.After(now)
		at, _, err := s.store.LastDue(ctx, c.Num, ch)
		if err != nil {
			return waiting, last, err
		}
		if at.After(last) {
			last = at
		}
	}
	return waiting, last, nil
}
