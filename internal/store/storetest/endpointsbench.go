package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/endpoint"
	"godwit.dev/godwit/internal/push"
)

// manySubscribers is how many endpoints BenchmarkLists looks through.
const manySubscribers = 1_000_000

// BenchmarkLists looks up endpoints among a million as people do on the page, 50 at a time from the first page to the last or the 200th. The
// figures are milliseconds of the slowest page.
func BenchmarkLists(b *testing.B, s endpoint.Store) {
	for n := 0; n < manySubscribers; n += 5000 {
		regs := make([]audience.Registration, 5000)
		for i := range regs {
			regs[i] = subscriber(n + i)
		}
		done, err := s.Register(b.Context(), App, regs)
		if err != nil {
			b.Fatal(err)
		}
		var together errgroup.Group
		for i := 0; i < len(done); i += 10 {
			together.Go(func() error { return s.DisableEndpoint(b.Context(), done[i].Endpoint.Number, "gone") })
		}
		if err := together.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	for name, look := range map[string]struct {
		status audience.Status
		who    audience.Audience
	}{
		"any":                  {},
		"active":               {status: audience.Active},
		"disabled":             {status: audience.Disabled},
		"rare channel":         {status: audience.Active, who: audience.Audience{Channels: []push.Channel{push.Telegram}}},
		"rare channel, any":    {who: audience.Audience{Channels: []push.Channel{push.Telegram}}},
		"recipient":            {who: audience.Audience{Recipients: []string{"r4200"}}},
		"common tag":           {status: audience.Active, who: audience.Audience{TagsAll: []string{"news"}}},
		"rare tag":             {status: audience.Active, who: audience.Audience{TagsAll: []string{"t77"}}},
		"rare tag, any":        {who: audience.Audience{TagsAll: []string{"t77"}}},
		"rare tag, disabled":   {status: audience.Disabled, who: audience.Audience{TagsAll: []string{"t70"}}},
		"attribute":            {status: audience.Active, who: audience.Audience{Where: `city = "c9"`}},
		"attribute, any":       {who: audience.Audience{Where: `city = "c9"`}},
		"part of an attribute": {status: audience.Active, who: audience.Audience{Where: `city contains "nowhere"`}},
	} {
		sel, err := look.who.Select("")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(slowestPage(b.Context(), b, s, look.status, sel), "ms/slowest")
			}
		})
	}
}

func subscriber(n int) audience.Registration {
	e := audience.Endpoint{
		Channel: push.WebPush, Recipient: fmt.Sprint("r", n/3), Tags: []string{"news", fmt.Sprint("t", n%1000)}, Locale: "nb-NO",
		Attributes: audience.Attributes{"city": audience.Text(fmt.Sprint("c", n%5000)), "age": audience.Number(float64(n % 80))},
		Address: json.RawMessage(fmt.Sprintf(
			`{"endpoint":"https://push.example/%d","keys":{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}}`, n)),
	}
	if n == manySubscribers-1 {
		e.Channel, e.Address = push.Telegram, json.RawMessage(`{"chat_id":1}`)
	}
	return audience.Registration{Endpoint: e, Trusted: true}
}

func slowestPage(ctx context.Context, b *testing.B, s endpoint.Store, status audience.Status, sel *audience.Selection) (ms float64) {
	b.Helper()
	after := int64(0)
	for page, more := 0, true; more && page < 200; page++ {
		begun := time.Now()
		var err error
		if _, after, more, err = s.ListEndpoints(ctx, App, status, sel, after, 50); err != nil {
			b.Fatal(err)
		}
		ms = max(ms, float64(time.Since(begun).Microseconds())/1000)
	}
	return ms
}
