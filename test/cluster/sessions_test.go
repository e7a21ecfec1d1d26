package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// seen counts the nodes that a node sees, by state.
func seen(t *testing.T, s *blackbox.Server) map[string]int {
	t.Helper()
	a, err := s.API().Do(t.Context(), http.MethodGet, "/v1/cluster", nil)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Nodes []struct{ Name, State string }
	}
	if err := a.JSON(&v); err != nil {
		t.Fatal(err)
	}
	states := map[string]int{}
	for _, n := range v.Nodes {
		states[n.State]++
	}
	return states
}

func publish(t *testing.T, s *blackbox.Server, to, id string) {
	t.Helper()
	if err := s.API().Publish(t.Context(), map[string]any{"to": to, "id": id, "title": id}); err != nil {
		t.Fatal(err)
	}
}

// dial connects and reads the welcome.
func dial(t *testing.T, s *blackbox.Server, transport, recipient string) blackbox.Link {
	t.Helper()
	return s.Connect(t, transport, blackbox.Hello{App: "demo", Recipient: recipient})
}

func next(t *testing.T, l blackbox.Link, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
	defer cancel()
	n, err := blackbox.NextNotification(ctx, l)
	if err != nil || n.ID != want {
		t.Fatalf("got %+v, %v; want %s", n, err, want)
	}
	if err := l.Ack(ctx, n.ID); err != nil {
		t.Fatal(err)
	}
}

// TestNodesAreAlike: what one node does for clients and back ends, any does. These tests share nodes, since none stops one.
func TestNodesAreAlike(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{})
	for name, test := range map[string]func(*testing.T, *Cluster){
		"AnyNodeTakesAnyPublishAndAnyConnection": anyPublishAndAnyConnection,
		"PollsAndPostsComeToAnyNode":             pollsAndPosts,
		"OneIDPublishedOnTwoNodesAtOnce":         oneIDAtOnce,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

func anyPublishAndAnyConnection(t *testing.T, c *Cluster) {
	nodes := c.Nodes
	for i, transport := range blackbox.Transports {
		recipient := "unit-" + transport
		l := dial(t, nodes[i%3], transport, recipient)
		for k := range 6 {
			id := fmt.Sprintf("%s-%d", recipient, k)
			publish(t, nodes[k%3], recipient, id)
			next(t, l, id)
		}
		blackbox.Eventually(t, "every node knows what became of the last", func() error {
			for _, s := range nodes {
				if err := s.API().WantState(t.Context(), recipient+"-5", recipient, "acked"); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func TestRecipientOfAKilledNodeGoesOnElsewhere(t *testing.T) {
	blackbox.Long(t)
	nodes := Start(t, Options{}).Nodes
	l := dial(t, nodes[1], "ws", "unit")
	publish(t, nodes[0], "unit", "n1")
	next(t, l, "n1")
	blackbox.Eventually(t, "it is acknowledged", func() error { return nodes[0].API().WantState(t.Context(), "n1", "unit", "acked") })
	nodes[1].Kill()
	publish(t, nodes[0], "unit", "n2")
	l = dial(t, nodes[2], "ws", "unit")
	next(t, l, "n2")
	publish(t, nodes[0], "unit", "n3")
	next(t, l, "n3")
	blackbox.Eventually(t, "the killed node is listed as missing", func() error {
		if v := seen(t, nodes[0]); v["alive"] != 1 || v["missing"] != 1 {
			return fmt.Errorf("sees %v", v)
		}
		return nil
	})
}

func pollsAndPosts(t *testing.T, c *Cluster) {
	nodes := c.Nodes
	get := func(s *blackbox.Server, path string) (v struct {
		Session string
		Frames  []map[string]json.RawMessage
	},
	) {
		t.Helper()
		a, err := s.API("").Do(t.Context(), http.MethodGet, path, nil)
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("%s: %v, %v", path, a, err)
		}
		if err := a.JSON(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	session := get(nodes[0], "/v1/poll?app=demo&recipient=unit").Session
	publish(t, nodes[1], "unit", "n1")
	v := get(nodes[1], "/v1/poll?wait=60s&session="+session)
	if len(v.Frames) != 1 || !strings.Contains(string(v.Frames[0]["notification"]), `"n1"`) {
		t.Fatalf("the other node answered %s", v.Frames)
	}
	a, err := nodes[1].API("").Do(t.Context(), http.MethodPost, "/v1/frames", map[string]any{"session": session, "frames": []any{map[string]any{"ack": map[string]any{"ids": []string{"n1"}}}}})
	if err != nil || a.Status != http.StatusOK {
		t.Fatal(a, err)
	}
	blackbox.Eventually(t, "it is acknowledged", func() error { return nodes[0].API().WantState(t.Context(), "n1", "unit", "acked") })
	if a, err := nodes[1].API("").Do(t.Context(), http.MethodGet, "/v1/poll?session="+session[:22]+".nosuchno", nil); err != nil || a.Status != http.StatusNotFound {
		t.Errorf("a session of no node: %v, %v", a, err)
	}
}

func TestDrainedNodeSendsItsSessionsToOthers(t *testing.T) {
	nodes := Start(t, Options{Nodes: 2}).Nodes
	l := dial(t, nodes[0], "ws", "unit")
	if out, err := nodes[0].Run("drain", "--data", nodes[0].Dir); err != nil {
		t.Fatal(out, err)
	}
	for {
		f, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f.Goodbye != nil {
			break
		}
	}
	if a, err := nodes[0].API().Do(t.Context(), http.MethodGet, "/readyz", nil); err != nil || a.Status != http.StatusServiceUnavailable {
		t.Errorf("a drained node is ready: %v, %v", a, err)
	}
	l = dial(t, nodes[1], "ws", "unit")
	publish(t, nodes[0], "unit", "n1") // it goes on answering
	next(t, l, "n1")
	blackbox.Eventually(t, "the other knows that it drains", func() error {
		if v := seen(t, nodes[1]); v["draining"] != 1 {
			return fmt.Errorf("sees %v", v)
		}
		return nil
	})
	if code := nodes[0].Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	blackbox.Eventually(t, "the node has left", func() error {
		if v := seen(t, nodes[1]); len(v) != 1 {
			return fmt.Errorf("sees %v", v)
		}
		return nil
	})
}
