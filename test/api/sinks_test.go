package api

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/sink/clickhouse/chdbtest"
	"godwit.dev/godwit/test/blackbox"
)

var events = flag.Int("events", 3000, "events, three for each notification")

const (
	recipients   = 100
	publishers   = 4
	atOnce       = 50 // notifications in a batch
	sinkPatience = 10 * time.Minute
)

// sinkStorm is a server under load that writes its events to ClickHouse.
type sinkStorm struct {
	t         *testing.T
	server    *blackbox.Server
	api       *blackbox.API
	house     *chdbtest.Engine
	batches   int
	published atomic.Int64 // batches
}

func TestClickHouseHasEveryEventOnceThroughKillsAndStops(t *testing.T) {
	s := &sinkStorm{t: t, house: chdbtest.Start(t), batches: max(1, *events/3/atOnce)}
	s.server = blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls"))
	s.api = s.server.API()
	a, err := s.api.Do(t.Context(), http.MethodPut, "/v1/sinks/clickhouse", map[string]any{"url": s.house.URL})
	if err != nil || a.Status != http.StatusCreated {
		t.Fatalf("add the sink: %+v, %v", a, err)
	}
	ctx, over := context.WithCancel(t.Context())
	var clients, writers sync.WaitGroup
	for i := range recipients {
		clients.Go(func() { s.listen(ctx, unitName(i)) })
	}
	for i := range publishers {
		writers.Go(func() { s.publish(ctx, i) })
	}
	s.interfere()
	writers.Wait()
	want := s.untilAcknowledged()
	over()
	clients.Wait()
	s.compare(want)
}

func unitName(i int) string { return fmt.Sprint("unit-", i) }

// listen acknowledges a recipient's notifications, over one connection after the other.
func (s *sinkStorm) listen(ctx context.Context, who string) {
	for ctx.Err() == nil {
		link, err := s.server.Dial(ctx, "ws", blackbox.Hello{App: "demo", Recipient: who})
		for err == nil {
			var n *blackbox.Notification
			if n, err = blackbox.NextNotification(ctx, link); err == nil {
				err = link.Ack(ctx, n.ID)
			}
		}
		if link != nil {
			link.Cut()
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond): // the server is away
		}
	}
}

// publish publishes one publisher's share. Publications without an answer are repeated under the same ids.
func (s *sinkStorm) publish(ctx context.Context, publisher int) {
	for b := publisher; b < s.batches; b += publishers {
		var lines strings.Builder
		for i := range atOnce {
			n := b*atOnce + i
			fmt.Fprintf(&lines, `{"id":"n-%d","to":"%s","ttl":"1h","category":"RIDE"}`+"\n", n, unitName(n%recipients))
		}
		err := blackbox.Poll(ctx, sinkPatience, func() error {
			a, err := s.api.Do(ctx, http.MethodPost, "/v1/notifications/batch", []byte(lines.String()))
			if err == nil && (a.Status != http.StatusOK || strings.Count(string(a.Body), `"status":"`) < atOnce) {
				err = fmt.Errorf("%d %s", a.Status, a.Body)
			}
			return err
		})
		if err != nil {
			s.t.Errorf("publish: %v", err)
			return
		}
		s.published.Add(1)
	}
}

// interfere kills the server again and again during the publishing, and stops ClickHouse twice, each time during a kill.
func (s *sinkStorm) interfere() {
	away := map[int]bool{*kills / 4: true, *kills * 3 / 4: true}
	for i := range *kills {
		part := int64(s.batches * (i + 1) / (*kills + 1))
		blackbox.EventuallyWithin(s.t, sinkPatience, "publishes", func() error {
			if n := s.published.Load(); n < part {
				return fmt.Errorf("%d of %d batches", n, part)
			}
			return nil
		})
		if away[i] {
			s.house.Stop()
		}
		s.server.Kill()
		if err := s.server.Launch(); err != nil {
			s.t.Fatal(err)
		}
		if away[i] {
			s.house.Again()
		}
		s.t.Logf("kill %d, %d of %d batches published", i+1, s.published.Load(), s.batches)
	}
}

// untilAcknowledged waits until all notifications are acknowledged, and returns the status API's numbers per type in ClickHouse's form.
func (s *sinkStorm) untilAcknowledged() string {
	blackbox.EventuallyWithin(s.t, sinkPatience, "all to be acknowledged", func() error {
		n, err := s.api.Pending(s.t.Context())
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are pending", n)
		}
		return err
	})
	var stored, acked, delivered int
	for i := range recipients {
		if err := s.count(unitName(i), &stored, &acked, &delivered); err != nil {
			s.t.Fatal(err)
		}
	}
	if all := s.batches * atOnce; stored != all || acked != all {
		s.t.Errorf("of %d published %d are known, %d acknowledged", all, stored, acked)
	}
	return fmt.Sprintf("acked\t%d\ndelivered\t%d\nstored\t%d", acked, delivered, stored)
}

func (s *sinkStorm) count(who string, stored, acked, delivered *int) error {
	for cursor := ""; ; {
		a, err := s.api.Do(s.t.Context(), http.MethodGet, "/v1/recipients/"+who+"/notifications?limit=200&cursor="+url.QueryEscape(cursor), nil)
		if err != nil {
			return err
		}
		var page struct {
			Items []struct {
				Status      string
				DeliveredAt string `json:"delivered_at"`
			}
			NextCursor string `json:"next_cursor"`
		}
		if err := a.JSON(&page); err != nil {
			return err
		}
		for _, it := range page.Items {
			*stored++
			if it.Status == "acked" {
				*acked++
			}
			if it.DeliveredAt != "" {
				*delivered++
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
}

// lag returns how far the sink is behind, in milliseconds.
func (s *sinkStorm) lag() (ms int, err error) {
	a, err := s.api.Do(s.t.Context(), http.MethodGet, "/v1/sinks/clickhouse", nil)
	if err != nil {
		return 0, err
	}
	var sink struct {
		LagMS int `json:"lag_ms"`
	}
	return sink.LagMS, a.JSON(&sink)
}

// compare waits until ClickHouse has the same number of each type, and checks that no event is there twice.
func (s *sinkStorm) compare(want string) {
	const of = " FROM godwit.event FINAL WHERE type IN ('stored', 'delivered', 'acked')"
	blackbox.EventuallyWithin(s.t, sinkPatience, "ClickHouse to have all", func() error {
		lag, err := s.lag() // check the lag first: a query costs the engine more than an answer of the sink
		if err == nil && lag > 0 {
			err = fmt.Errorf("the sink lags %d ms behind", lag)
		}
		if err != nil {
			return err
		}
		got, err := s.house.Ask("SELECT type, count()" + of + " GROUP BY type ORDER BY type")
		if err == nil && got != want {
			err = fmt.Errorf("ClickHouse has\n%s\nthe status API says\n%s", got, want)
		}
		return err
	})
	twice, err := s.house.Ask("SELECT count() - uniqExact(type, id, recipient)" + of)
	if err != nil || twice != "0" {
		s.t.Errorf("%s events are there twice, %v", twice, err)
	}
	bare, err := s.house.Ask("SELECT count()" + of + " AND type = 'stored' AND NOT reconciled AND category != 'RIDE'")
	if err != nil || bare != "0" {
		s.t.Errorf("%s stored events have another category, %v", bare, err)
	}
	again, err := s.house.Ask("SELECT count() - uniqExact(event_id), countIf(reconciled) FROM godwit.event")
	if err != nil {
		s.t.Error(err)
	}
	s.t.Logf("%s; written more than once, and made anew from the mailboxes: %s", strings.ReplaceAll(want, "\n", ", "), again)
}
