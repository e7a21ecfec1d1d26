package storetest

import (
	"context"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
)

// pages is how many pages of each list are read.
const pages = 200

// BenchmarkLists looks up endpoints among a million as the web page does, 50 at a time from the first page to the last or the 200th, and
// counts audiences in parts. It reports milliseconds per page or part, the mean and the slowest. The store must already have the endpoints:
// the nth, from 0, belongs to recipient r(n/3), is disabled if n is a multiple of 10, and has the tags news and t(n%1000), the city
// c(n%5000) and the age n%80; the last one has another channel than the others.
func BenchmarkLists(b *testing.B, s endpoint.Store) {
	for name, look := range map[string]struct {
		status audience.Status
		who    audience.Audience
	}{
		"any":                  {},
		"active":               {status: audience.Active},
		"disabled":             {status: audience.Disabled},
		"channel":              {status: audience.Active, who: audience.Audience{Channels: []push.Channel{push.WebPush}}},
		"channel, disabled":    {status: audience.Disabled, who: audience.Audience{Channels: []push.Channel{push.WebPush}}},
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
				mean, slowest := listed(b.Context(), b, s, look.status, sel)
				b.ReportMetric(mean, "ms/page")
				b.ReportMetric(slowest, "ms/slowest")
			}
		})
		if look.status == audience.Active {
			b.Run("count "+name, func(b *testing.B) {
				for b.Loop() {
					mean, slowest := counted(b.Context(), b, s, sel)
					b.ReportMetric(mean, "ms/part")
					b.ReportMetric(slowest, "ms/slowest")
				}
			})
		}
	}
}

func listed(ctx context.Context, b *testing.B, s endpoint.Store, status audience.Status, sel *audience.Selection) (mean, slowest float64) {
	b.Helper()
	after := int64(0)
	return times(func() bool {
		_, next, more, err := s.ListEndpoints(ctx, App, status, sel, after, 50)
		if err != nil {
			b.Fatal(err)
		}
		after = next
		return more
	})
}

// times calls do until it returns false, or once for each of pages. It returns milliseconds.
func times(do func() (more bool)) (mean, slowest float64) {
	sum, n := 0.0, 0.0
	for more := true; more && n < pages; n++ {
		begun := time.Now()
		more = do()
		ms := float64(time.Since(begun).Microseconds()) / 1000
		sum, slowest = sum+ms, max(slowest, ms)
	}
	return sum / n, slowest
}

func counted(ctx context.Context, b *testing.B, s endpoint.Store, sel *audience.Selection) (mean, slowest float64) {
	b.Helper()
	after := int64(0)
	return times(func() bool {
		part, err := s.CountPart(ctx, App, sel, after)
		if err != nil {
			b.Fatal(err)
		}
		after = part.Next
		return after > 0
	})
}
