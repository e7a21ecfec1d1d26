package api

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// TestEventsAreCompleteThroughKills kills the server right after an acknowledgement, before its last events are stored. Once the server
// runs again, the log must have each event exactly once.
func TestEventsAreCompleteThroughKills(t *testing.T) {
	blackbox.Long(t)
	const rounds, each = 3, 50
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	want := map[string]bool{}
	for round := range rounds {
		ids := make([]string, each)
		for i := range ids {
			ids[i] = fmt.Sprintf("n-%d-%d", round, i)
			want["stored "+ids[i]] = true
			if i < each/2 {
				want["acked "+ids[i]] = true
			}
			if err := server.API().Publish(t.Context(), map[string]any{"to": "ann", "id": ids[i], "title": "Hi"}); err != nil {
				t.Fatal(err)
			}
		}
		a, err := server.API().Do(t.Context(), http.MethodPost, "/v1/acks?app=demo&recipient=ann", map[string]any{"ids": ids[:each/2]})
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("%+v, %v", a, err)
		}
		server.Kill()
		if err := server.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, fmt.Errorf("the events did not come within a minute"))
	defer cancel()
	came, reconciled := map[string]bool{}, 0
	err := server.API().Events(ctx, "stored,acked", func(e blackbox.Event) bool {
		name := e.Type + " " + e.ID
		if came[name] || !want[name] {
			t.Errorf("%s came twice, or never happened", name)
		}
		came[name] = true
		if e.Reconciled {
			reconciled++
		}
		return len(came) < len(want)
	})
	if err != nil || len(came) != len(want) {
		t.Errorf("%d of %d events: %v", len(came), len(want), err)
	}
	if n, err := server.API().Metric(t.Context(), "godwit_events_reconciled_total"); err != nil || n > float64(reconciled) {
		t.Errorf("%d events were reconciled, %v of them by this server, %v", reconciled, n, err)
	}
	t.Logf("%d of %d events had been lost", reconciled, len(want))
}

// TestFirstDeliveriesAreToldOnceThroughAKill kills the server once the log has deliveries that the mailbox has not recorded yet. They are
// repeated, but must not count as first deliveries again.
func TestFirstDeliveriesAreToldOnceThroughAKill(t *testing.T) {
	blackbox.Long(t)
	const rounds, each = 3, 30
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	api := server.API()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, fmt.Errorf("the events did not come within two minutes"))
	defer cancel()
	arrive := func(want int) (last []string) {
		t.Helper()
		link, err := server.Dial(ctx, "ws", blackbox.Hello{App: "demo", Recipient: "ann", Window: 2 * rounds * each})
		if err != nil {
			t.Fatal(err)
		}
		defer link.Cut()
		for range want {
			n, err := blackbox.NextNotification(ctx, link)
			if err != nil {
				t.Fatal(err)
			}
			last = append(last, n.ID)
		}
		return last
	}
	told := map[string]int{}
	listen := func(until string) {
		t.Helper()
		clear(told)
		err := api.Events(ctx, "delivered", func(e blackbox.Event) bool {
			told[e.ID]++
			return e.ID != until
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		for i := range each {
			if err := api.Publish(ctx, map[string]any{"to": "ann", "id": fmt.Sprintf("n-%d-%d", round, i), "title": "Hi"}); err != nil {
				t.Fatal(err)
			}
		}
		arrive((round + 1) * each)
		listen(fmt.Sprintf("n-%d-%d", round, each-1))
		server.Kill()
		if err := server.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	arrive(rounds * each)
	if err := api.Publish(ctx, map[string]any{"to": "ann", "id": "last", "title": "Hi"}); err != nil {
		t.Fatal(err)
	}
	arrive(rounds*each + 1)
	listen("last")
	for id, n := range told {
		if n != 1 {
			t.Errorf("the log was told %d times that %s was delivered for the first time", n, id)
		}
	}
	if len(told) != rounds*each+1 {
		t.Errorf("the log was told of %d first deliveries, want %d", len(told), rounds*each+1)
	}
}
