package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// lasting are the transports with one connection per session; each poll is a separate request.
var lasting = []string{"ws", "ws-proto", "grpc", "sse"}

// TestSessionsBehindHAProxyOutliveADatabaseThatIsAway: no node is ready without the database, so HAProxy passes no new requests; existing
// connections stay.
func TestSessionsBehindHAProxyOutliveADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	db := pgtest.Start(t, pgtest.Options{Fsync: true})
	c := Start(t, Options{Postgres: func(int) string { return db.URL() }})
	links := map[string]blackbox.Link{}
	for _, transport := range lasting {
		links[transport] = dial(t, c.Front(), transport, "unit-"+transport)
	}
	api := c.Front().API()
	db.Kill()
	blackbox.Eventually(t, "HAProxy has no node to ask", func() error {
		a, err := api.Do(t.Context(), http.MethodGet, "/healthz", nil) // a node would answer this even without the database
		if err == nil && a.Status != http.StatusServiceUnavailable {
			err = fmt.Errorf("it answers %d", a.Status)
		}
		return err
	})
	db.Restart(t)
	for transport, link := range links {
		blackbox.Eventually(t, "a node publishes again", func() error {
			return api.Publish(t.Context(), map[string]any{"to": "unit-" + transport, "id": transport, "title": "x"})
		})
		next(t, link, transport)
	}
}

// TestADrainedNodeGoesUnnoticedBehindHAProxy: each session gets a goodbye or stays, and reconnects to another node.
func TestADrainedNodeGoesUnnoticedBehindHAProxy(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	c := Start(t, Options{})
	links := map[string]blackbox.Link{}
	for i := range 3 {
		for _, transport := range lasting {
			name := fmt.Sprint(transport, "-", i)
			links[name] = dial(t, c.Front(), transport, name)
		}
	}
	api := c.Front().API()
	if out, err := c.Nodes[0].Run("drain", "--data", c.Nodes[0].Dir); err != nil {
		t.Fatal(out, err)
	}
	blackbox.Eventually(t, "HAProxy passes the node over", func() error {
		for range 2 * len(c.Nodes) {
			api.HTTP.CloseIdleConnections()
			if a, err := api.Do(t.Context(), http.MethodGet, "/readyz", nil); err != nil || a.Status != http.StatusOK {
				return fmt.Errorf("%+v, %w", a, err)
			}
		}
		return nil
	})
	sent := 0
	for name, link := range links {
		publish(t, c.Front(), name, name)
		ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
		defer cancel()
		n, err := untilGoodbye(ctx, link)
		if errors.Is(err, errGoodbye) {
			sent++
			n, err = blackbox.NextNotification(ctx, dial(t, c.Front(), name[:len(name)-2], name))
		}
		if err != nil || n.ID != name {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
	if sent == 0 || sent == len(links) {
		t.Errorf("%d of %d sessions were sent away: HAProxy did not spread them", sent, len(links))
	}
	if code := c.Nodes[0].Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

var errGoodbye = errors.New("the server says goodbye")

// untilGoodbye returns the next notification, or errGoodbye.
func untilGoodbye(ctx context.Context, l blackbox.Link) (*blackbox.Notification, error) {
	for {
		f, err := l.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case f.Goodbye != nil:
			return nil, errGoodbye
		case f.Notification != nil:
			return f.Notification, nil
		}
	}
}
