package campaigndb_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
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

// BenchmarkRegister registers subscribers of one app: one after the other from each of several visitors, or 500 together.
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

// BenchmarkDelivery passes deliveries through the store as a campaign does: written, read when due, claimed in groups of 50, finished in
// batches of 250. The figures are nanoseconds for each delivery.
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
				_, done, err = s.Enumerate(b.Context(), epoch, c.Num, 500, func(*campaign.Target) campaign.Place { return campaign.Place{Due: now} })
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

// manyEndpoints inserts the endpoints for which storetest.BenchmarkLists searches.
const manyEndpoints = `
INSERT INTO endpoint(app, id, channel, recipient, address, address_key, tags, attributes, locale, timezone, active, disabled_reason, created_at, updated_at, last_seen_at)
SELECT 'app', decode(md5('id' || n), 'hex'), CASE WHEN n = 999999 THEN 'telegram' ELSE 'webpush' END, 'r' || n / 3,
	CASE WHEN n = 999999 THEN '{"chat_id":1}' ELSE '{"endpoint":"https://push.example/' || n || '","keys":{"p256dh":"' || repeat('a', 87) || '","auth":"' || repeat('b', 22) || '"}}' END,
	decode(md5('address' || n), 'hex'), '["news","t' || n % 1000 || '"]', '{"age":' || n % 80 || ',"city":"c' || n % 5000 || '"}', 'nb-NO', '',
	n % 10 <> 0, CASE WHEN n % 10 = 0 THEN 'gone' ELSE '' END, n, n, 0 FROM generate_series(0, 999999) n ORDER BY n;
INSERT INTO tag_name(app, name) SELECT 'app', 'news' UNION ALL SELECT 'app', 't' || n FROM generate_series(0, 999) n;
INSERT INTO attribute_name(app, name) VALUES ('app', 'age'), ('app', 'city');
INSERT INTO endpoint_tag SELECT (SELECT id FROM tag_name WHERE name = 'news'), number FROM endpoint WHERE active;
INSERT INTO endpoint_tag SELECT t.id, e.number FROM endpoint e JOIN tag_name t ON t.name = 't' || (e.number - 1) % 1000 WHERE e.active;
INSERT INTO attribute_number SELECT number, (SELECT id FROM attribute_name WHERE name = 'age'), (number - 1) % 80 FROM endpoint WHERE active;
INSERT INTO attribute_text SELECT number, (SELECT id FROM attribute_name WHERE name = 'city'), 'c' || (number - 1) % 5000 FROM endpoint WHERE active;
INSERT INTO endpoint_count SELECT app, channel, active, count(*) FROM endpoint GROUP BY 1, 2, 3;`

// BenchmarkLists looks up endpoints among a million, for which the planner has no statistics yet.
func BenchmarkLists(b *testing.B) {
	s, err := campaigndb.Open(b.Context(), campaigndb.Config{URL: pgtest.Start(b, pgtest.Options{Settings: map[string]string{"autovacuum": "off"}}).URL()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	conn, err := s.DB().Pool().Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	_, err = conn.Conn().PgConn().Exec(b.Context(), manyEndpoints).ReadAll()
	if conn.Release(); err != nil {
		b.Fatal(err)
	}
	storetest.BenchmarkLists(b, s)
}
