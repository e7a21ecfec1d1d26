//go:build unix

package campaigndb

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/store/storetest"
)

// BenchmarkDelivery takes deliveries through the store as a campaign does: written, read when due, claimed in groups
// of 50, finished in batches of 250. The figures are nanoseconds of CPU time of one delivery.
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
				_, done, err = s.Enumerate(b.Context(), epoch, num, 500, func(*campaign.Target) time.Time { return now })
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

// BenchmarkLists looks up endpoints among a million.
func BenchmarkLists(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "campaign.db"), Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	storetest.BenchmarkLists(b, s)
}
