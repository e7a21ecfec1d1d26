package cluster

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// goodbye reads frames until the server sends a goodbye, and returns its reason and the notifications before it.
func goodbye(ctx context.Context, t *testing.T, link blackbox.Link) (reason string, got []string) {
	t.Helper()
	for {
		f, err := link.Next(ctx)
		switch {
		case err != nil:
			t.Fatalf("no goodbye after %v: %v", got, err)
		case f.Goodbye != nil:
			return f.Goodbye.Reason, got
		case f.Notification != nil:
			got = append(got, f.Notification.ID)
		}
	}
}

// One node of two loses PostgreSQL, because the network drops all packets or because connections are refused.
func TestClientsOfANodeThatAloneLacksPostgreSQLMoveToAnother(t *testing.T) {
	blackbox.Long(t)
	for name, cut := range map[string]func(*Wire) (mend func()){
		"silence": func(w *Wire) func() { w.Cut(); return w.Heal },
		"refusal": func(w *Wire) func() {
			to := w.to
			w.Lead(to + ".gone")
			return func() { w.Lead(to) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.Database(t)
			wired, wire := over(t, direct)
			c := Start(t, Options{Nodes: 2, Postgres: func(i int) string { return []string{wired, direct}[i] }, Serve: []blackbox.Option{blackbox.Plain()}})
			ctx, cancel := context.WithTimeout(t.Context(), 3*blackbox.Patience)
			defer cancel()
			lost, well := c.Nodes[0].API(), c.Nodes[1].API()
			link := dial(t, c.Nodes[0], "ws", "ann")
			for _, id := range []string{"acked", "open"} {
				publish(t, c.Nodes[1], "ann", id)
				if n, err := blackbox.NextNotification(ctx, link); err != nil || n.ID != id {
					t.Fatalf("%+v, %v", n, err)
				}
			}
			mend := cut(wire)
			begun := time.Now()
			if err := refused(ctx, lost, map[string]any{"id": "refused", "to": "ann", "title": "x"}); err != nil {
				t.Error(err)
			}
			t.Logf("the first publish after the cut was refused after %s", time.Since(begun).Round(time.Millisecond))
			if err := link.Ack(ctx, "acked"); err != nil {
				t.Fatal(err)
			}
			publish(t, c.Nodes[1], "ann", "beside")
			blackbox.Eventually(t, "the acknowledgement counts, by way of the other node", func() error { return well.WantState(ctx, "acked", "ann", "acked") })
			reason, got := goodbye(ctx, t, link)
			if reason != "store_away" {
				t.Errorf("the session ended with %s after %v, want store_away", reason, got)
			}
			answer, err := lost.Do(ctx, http.MethodPost, "/v1/acks?recipient=ann", map[string]any{"ids": []string{"open"}})
			if err != nil || answer.Status != http.StatusOK {
				t.Errorf("an acknowledgement over HTTP: %+v, %v", answer, err)
			}
			for path, status := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/v1/cluster": http.StatusOK} {
				if answer, err := lost.Do(ctx, http.MethodGet, path, nil); err != nil || answer.Status != status {
					t.Errorf("%s: %+v, %v; want %d", path, answer, err, status)
				}
			}
			late, err := c.Nodes[0].Dial(ctx, "ws", blackbox.Hello{App: "demo", Recipient: "ann"})
			if err != nil {
				t.Fatal(err)
			}
			defer late.Cut()
			if reason, _ := goodbye(ctx, t, late); reason != "store_away" {
				t.Errorf("a new session was refused with %s, want store_away", reason)
			}
			moved := dial(t, c.Nodes[1], "ws", "ann")
			if n, err := blackbox.NextNotification(ctx, moved); err != nil || n.ID != "beside" {
				t.Errorf("at the other node it got %+v, %v; want what is not acknowledged", n, err)
			}
			mend()
			blackbox.Eventually(t, "the node is itself again", func() error {
				if err := lost.Publish(ctx, map[string]any{"id": "after", "to": "bob", "title": "x"}); err != nil {
					return err
				}
				back, err := c.Nodes[0].Dial(ctx, "ws", blackbox.Hello{App: "demo", Recipient: "bob"})
				if err != nil {
					return err
				}
				defer back.Cut()
				if n, err := blackbox.NextNotification(ctx, back); err != nil || n.ID != "after" {
					return fmt.Errorf("a new session got %+v, %w", n, err)
				}
				return nil
			})
		})
	}
}
