package campaigndb_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/store/postgres/campaigndb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
)

func benchmarked(b *testing.B) *campaigndb.Store {
	b.Helper()
	s, err := campaigndb.Open(b.Context(), campaigndb.Config{URL: pgtest.Start(b, pgtest.Options{Fsync: true}).URL()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func subscription(i int64) audience.Registration {
	return audience.Registration{Trusted: true, Endpoint: audience.Endpoint{
		Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, i)), Tags: []string{"news", fmt.Sprint("t", i%10)},
		Attributes: audience.Attributes{"age": audience.Number(float64(i % 80)), "city": audience.Text("Oslo")},
	}}
}

// BenchmarkRegister registers subscribers of one app, one after the other from each of some visitors, or 500 together.
func BenchmarkRegister(b *testing.B) {
	var next atomic.Int64
	b.Run("one by one", func(b *testing.B) {
		s := benchmarked(b)
		b.SetParallelism(16)
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := s.Register(b.Context(), "demo", []audience.Registration{subscription(next.Add(1))}); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("500 together", func(b *testing.B) {
		s := benchmarked(b)
		for b.Loop() {
			var regs []audience.Registration
			for range 500 {
				regs = append(regs, subscription(next.Add(1)))
			}
			if _, err := s.Register(b.Context(), "demo", regs); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/endpoint")
	})
}

// BenchmarkDelivery takes deliveries through the store as a campaign does: written, read when due, claimed in groups
// of 50, finished in batches of 250. The figures are nanoseconds of one delivery.
func BenchmarkDelivery(b *testing.B) {
	const subscribers = 10_000
	s := benchmarked(b)
	regs := make([]audience.Registration, subscribers)
	for i := range regs {
		regs[i] = subscription(int64(i))
	}
	if _, err := s.Register(b.Context(), "demo", regs); err != nil {
		b.Fatal(err)
	}
	epoch, err := s.Own(b.Context(), "demo")
	if err != nil {
		b.Fatal(err)
	}
	sums := map[string]time.Duration{}
	measure := func(what string, do func() error) {
		begun := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		sums[what] += time.Since(begun)
	}
	n := 0
	for i := 0; b.Loop(); i++ {
		now := time.Now()
		c := &campaign.Campaign{ID: fmt.Sprint(i), App: "demo", State: campaign.Running, Channels: []push.Channel{push.Telegram}, CreatedAt: now, StartedAt: now}
		if _, err := s.Insert(b.Context(), c, "", [32]byte{}); err != nil {
			b.Fatal(err)
		}
		for done := false; !done; {
			measure("enumerate", func() error {
				_, done, err = s.Enumerate(b.Context(), epoch, c.Num, 500, func(*campaign.Target) time.Time { return now })
				return err
			})
		}
		for {
			var due []campaign.Target
			measure("read", func() error {
				due, err = s.Due(b.Context(), c.Num, push.Telegram, now.Add(time.Second), 500)
				return err
			})
			if len(due) == 0 {
				break
			}
			n += len(due)
			var results []campaign.Result
			for len(due) > 0 {
				group := due[:min(50, len(due))]
				due = due[len(group):]
				measure("claim", func() error {
					group, err = s.Claim(b.Context(), epoch, c.Num, group, now)
					return err
				})
				for i := range group {
					results = append(results, campaign.Result{Row: group[i].Row, Channel: push.Telegram, Outcome: campaign.Accepted, Attempts: 1})
				}
				if len(results) >= 250 || len(due) == 0 {
					measure("finish", func() error { return s.Finish(b.Context(), epoch, c.Num, results, now) })
					results = nil
				}
			}
		}
	}
	for what, sum := range sums {
		b.ReportMetric(float64(sum.Nanoseconds())/float64(n), "ns/"+what)
	}
}

// BenchmarkLists looks up endpoints among a million.
func BenchmarkLists(b *testing.B) { storetest.BenchmarkLists(b, benchmarked(b)) }
