package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/engine/pause"
)

// Recipients measures what recipients cost who have had one notification each, which nobody fetched: the memory while they come and after all have
// expired, and a start with them.
type Recipients struct {
	Common
	Recipients int
	Publishers int           // connections, with one publish to a thousand recipients under way each
	Settle     time.Duration // from the last publish to the reading
}

const (
	// together is how many recipients a publish has.
	together = 1000
	// expiring is the time to live of the notifications.
	expiring = time.Second
	// sayEvery is how many recipients come between two words of progress.
	sayEvery = 1_000_000
)

// Run measures.
func (s *Recipients) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("recipients", "recipients: memory and start with very many who had one notification each",
		set("recipients", report.Format(float64(s.Recipients))), set("publishers", s.Publishers), set("expired after", expiring), set("settling", s.Settle))
	return r, s.runs(ctx, func(ctx context.Context, _ int) error { return s.once(ctx, r) })
}

func (s *Recipients) once(ctx context.Context, r *report.Result) error {
	server, err := testbed.StartServer(ctx, s.Testbed.Server)
	if err != nil {
		return err
	}
	defer server.Stop()
	begun, watch := time.Now(), meter.Start([]int{server.PID}, sampling)
	err = s.publish(ctx, server)
	samples := watch.Stop()
	if err != nil {
		return err
	}
	r.Add("memory", "while they come, most", "MB", float64(meter.Peak(samples))/mb)
	r.Add("publishes", "copies stored", "/s", float64(s.Recipients)/time.Since(begun).Seconds())
	s.Testbed.Say("waiting %s", s.Settle)
	if !pause.For(ctx, s.Settle) {
		return context.Cause(ctx)
	}
	if err := s.resident(r, server, "after all have expired"); err != nil {
		return err
	}
	begun = time.Now()
	if err := server.Restart(ctx, nil); err != nil {
		return err
	}
	r.Add("start", "after kill -9", "s", time.Since(begun).Seconds())
	return s.resident(r, server, "after the start")
}

func (s *Recipients) resident(r *report.Result, server *testbed.Server, when string) error {
	u, err := meter.Read(server.PID)
	if err == nil {
		r.Add("memory", when, "MB", float64(u.Resident)/mb)
	}
	return err
}

// publish publishes one notification to each recipient.
func (s *Recipients) publish(ctx context.Context, server *testbed.Server) error {
	client, err := godwit.New("http://"+server.HTTP, godwit.WithAPIKey(server.Key))
	if err != nil {
		return err
	}
	defer client.Close()
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range s.Publishers {
		g.Go(func() error {
			for {
				from := int(next.Add(together)) - together
				if from >= s.Recipients {
					return nil
				}
				if from%sayEvery == 0 {
					s.Testbed.Say("publishing to recipient %d of %d", from, s.Recipients)
				}
				if err := publishTo(ctx, client, from, min(from+together, s.Recipients)); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// publishTo publishes to the recipients of some numbers.
func publishTo(ctx context.Context, client *godwit.Client, from, to int) error {
	names := make([]string, 0, together)
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprintf("unit-%08d", i))
	}
	receipts, err := client.PublishTo(ctx, godwit.Publication{Title: "Hi", TTL: expiring}, names...)
	for i := range receipts {
		err = errors.Join(err, receipts[i].Err)
	}
	return err
}
