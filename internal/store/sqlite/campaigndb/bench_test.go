//go:build unix

package campaigndb

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/storetest"
)

// BenchmarkDelivery runs deliveries through the store as a campaign does: it writes them, reads them when due, claims groups of 50, and
// finishes batches of 250. It reports nanoseconds of CPU time per delivery.
func BenchmarkDelivery(b *testing.B) {
	const subscribers = 20_000
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "campaign.db"), Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var regs []audience.Registration
	for i := range subscribers {
		e := audience.Endpoint{ID: audience.NewID(time.Now()), App: "demo", Channel: push.WebPush, Address: json.RawMessage(fmt.Sprintf(
			`{"endpoint":"https://push.example/%d","keys":{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}}`, i))}
		if err := e.Check(); err != nil {
			b.Fatal(err)
		}
		regs = append(regs, audience.Registration{Endpoint: e, Trusted: true})
	}
	if _, err := s.Register(b.Context(), "demo", regs); err != nil {
		b.Fatal(err)
	}
	epoch, err := s.Own(b.Context(), "demo")
	if err != nil {
		b.Fatal(err)
	}
	var enumerating, reading, claiming, finishing time.Duration
	n := 0
	for i := 0; b.Loop(); i++ {
		now := time.Now()
		c := &campaign.Campaign{ID: fmt.Sprint(i), App: "demo", State: campaign.Running, Channels: []push.Channel{push.WebPush}, CreatedAt: now, StartedAt: now}
		if _, err := s.Insert(b.Context(), c, "", [32]byte{}); err != nil {
			b.Fatal(err)
		}
		if c, err = s.Get(b.Context(), "demo", c.ID); err != nil {
			b.Fatal(err)
		}
		num := c.Num
		measure := func(sum *time.Duration, do func() error) {
			begun := cpuTime(b)
			if err := do(); err != nil {
				b.Fatal(err)
			}
			*sum += cpuTime(b) - begun
		}
		for done := false; !done; {
			measure(&enumerating, func() error {
				_, done, err = s.Enumerate(b.Context(), epoch, num, 500, func(*campaign.Target) campaign.Place { return campaign.Place{Due: now} })
				return err
			})
		}
		for {
			var due []campaign.Target
			measure(&reading, func() error {
				due, err = s.Due(b.Context(), num, push.WebPush, now.Add(time.Second), 500)
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
				measure(&claiming, func() error {
					group, err = s.Claim(b.Context(), epoch, num, group, now)
					return err
				})
				for i := range group {
					results = append(results, campaign.Result{Row: group[i].Row, Channel: push.WebPush, Outcome: campaign.Accepted, Attempts: 1})
				}
				if len(results) >= 250 || len(due) == 0 {
					measure(&finishing, func() error { return s.Finish(b.Context(), epoch, num, results, now) })
					results = nil
				}
			}
		}
	}
	each := func(sum time.Duration, what string) {
		b.ReportMetric(float64(sum.Nanoseconds())/float64(n), "cpu-ns/"+what)
	}
	each(enumerating, "enumerate")
	each(reading, "read")
	each(claiming, "claim")
	each(finishing, "finish")
	each(enumerating+reading+claiming+finishing, "delivery")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// manyEndpoints are those that storetest.BenchmarkLists searches for.
var manyEndpoints = []string{
	`WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 999999)
	INSERT INTO endpoint(app, id, channel, recipient, address, address_key, tags, attributes, locale, timezone, active, disabled_reason, created_at, updated_at, last_seen_at)
	SELECT 'app', randomblob(16), CASE WHEN n = 999999 THEN 'telegram' ELSE 'webpush' END, 'r' || (n / 3),
		CASE WHEN n = 999999 THEN '{"chat_id":1}' ELSE '{"endpoint":"https://push.example/' || n || '","keys":{"p256dh":"' || hex(zeroblob(43)) || '","auth":"' || hex(zeroblob(11)) || '"}}' END,
		randomblob(16), '["news","t' || (n % 1000) || '"]', '{"age":' || (n % 80) || ',"city":"c' || (n % 5000) || '"}', 'nb-NO', '',
		n % 10 <> 0, CASE WHEN n % 10 = 0 THEN 'gone' ELSE '' END, n, n, 0 FROM s`,
	`WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 999)
	INSERT INTO tag_name(app, name) SELECT 'app', 'news' UNION ALL SELECT 'app', 't' || n FROM s`,
	"INSERT INTO attribute_name(app, name) VALUES ('app', 'age'), ('app', 'city')",
	"INSERT INTO endpoint_tag SELECT (SELECT id FROM tag_name WHERE name = 'news'), number FROM endpoint WHERE active",
	"INSERT INTO endpoint_tag SELECT t.id, e.number FROM endpoint e CROSS JOIN tag_name t ON t.app = 'app' AND t.name = 't' || ((e.number - 1) % 1000) WHERE e.active",
	"INSERT INTO attribute_number SELECT number, (SELECT id FROM attribute_name WHERE name = 'age'), (number - 1) % 80 FROM endpoint WHERE active",
	"INSERT INTO attribute_text SELECT number, (SELECT id FROM attribute_name WHERE name = 'city'), 'c' || ((number - 1) % 5000) FROM endpoint WHERE active",
	"INSERT INTO endpoint_count SELECT app, channel, active, count(*) FROM endpoint GROUP BY 1, 2, 3",
}

// BenchmarkLists looks up endpoints among a million.
func BenchmarkLists(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "campaign.db"), Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, sql := range manyEndpoints {
		err := s.db.Do(b.Context(), func(c *sqlite.Conn) error { return sqlitedb.EachOnce(c, sql, nil, nil) })
		if err != nil {
			b.Fatal(err)
		}
	}
	storetest.BenchmarkLists(b, s)
}
