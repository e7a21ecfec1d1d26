package storetest

import (
	"slices"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
)

const aDay = 24 * time.Hour

// endpointDays checks that endpoints count on the day on which they became active, were disabled and were deleted.
func endpointDays(e *endpointEnv) {
	first := e.clock.Now()
	imported := chat(1, func(x *audience.Endpoint) { x.CreatedAt = first.Add(-30 * aDay) })
	list := e.register(App, imported, chat(2), chat(3), chat(4))
	e.register("other", chat(1))
	e.register(App, chat(2)) // a renewal changes no counter
	e.clock.Advance(aDay)
	for range 2 {
		e.check(e.s.DisableEndpoint(e.Context(), list[1].Number, "gone"))
	}
	e.check(e.s.DeleteEndpoint(e.Context(), App, list[1].ID)) // disabled before: it is lost once
	e.check(e.s.DeleteEndpoint(e.Context(), App, list[2].ID))
	_, err := e.s.UpdateEndpoint(e.Context(), App, list[3].ID, true, func(x *audience.Endpoint) error {
		x.Status = audience.Disabled
		return nil
	})
	e.check(err)
	e.clock.Advance(aDay)
	e.register(App, chat(4)) // back again
	day := func(after time.Duration, gained, lost int64) endpoint.Day {
		return endpoint.Day{Day: first.UTC().Truncate(aDay).Add(after), Gained: gained, Lost: lost}
	}
	for _, c := range []struct {
		ch   push.Channel
		from time.Time
		want []endpoint.Day
	}{
		{"", first.Add(-60 * aDay), []endpoint.Day{day(-30*aDay, 1, 0), day(0, 3, 0), day(aDay, 0, 3), day(2*aDay, 1, 0)}},
		{push.Telegram, first.Add(aDay), []endpoint.Day{day(aDay, 0, 3), day(2*aDay, 1, 0)}},
		{push.WebPush, first, nil},
	} {
		got, err := e.s.EndpointDays(e.Context(), App, c.ch, c.from, e.clock.Now())
		e.check(err)
		if !slices.Equal(got, c.want) {
			e.Errorf("channel %q from %s: %v, want %v", c.ch, c.from, got, c.want)
		}
	}
}

// importedTimes checks that an endpoint keeps the times of another service, and that none lies in the future.
func importedTimes(e *endpointEnv) {
	now := e.clock.Now()
	early, seen := now.Add(-100*aDay), now.Add(-3*aDay)
	at := func(created, seen time.Time) audience.Registration {
		return chat(1, func(x *audience.Endpoint) { x.CreatedAt, x.LastSeenAt = created, seen })
	}
	for _, c := range []struct {
		reg           audience.Registration
		created, seen time.Time
	}{
		{at(seen, seen), seen, seen},
		{at(early, early), early, seen}, // the earlier creation and the later use count
		{at(now, time.Time{}), early, now},
	} {
		got := e.register(App, c.reg)[0]
		if !got.CreatedAt.Equal(c.created) || !got.LastSeenAt.Equal(c.seen) {
			e.Errorf("created %s, seen %s; want %s, %s", got.CreatedAt, got.LastSeenAt, c.created, c.seen)
		}
	}
	later := e.register(App, chat(2, func(x *audience.Endpoint) { x.CreatedAt, x.LastSeenAt = now.Add(aDay), now.Add(aDay) }))[0]
	if !later.CreatedAt.Equal(now) || !later.LastSeenAt.Equal(now) {
		e.Errorf("of tomorrow: created %s, seen %s at %s", later.CreatedAt, later.LastSeenAt, now)
	}
}
