package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// second prepares another node for the database of a cluster, with a name and a secret of its choice.
func second(t *testing.T, c *Cluster, url, name, secret string) *blackbox.Server {
	t.Helper()
	peer := c.wires[[2]int{0, 1}].Addr()
	return blackbox.New(t, blackbox.Dev(), Joining(t, name, blackbox.Free(t), secret, peer), blackbox.Env("GODWIT_POSTGRES="+url))
}

func TestASecondNodeOfOneNameIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return url }})
	twin := second(t, c, url, Name(1), Secret)
	if err := twin.Spawn(); err != nil {
		t.Fatal(err)
	}
	if code := twin.Wait(); code != 1 {
		t.Errorf("it exited with %d, want 1", code)
	}
	if log := twin.Log(); !strings.Contains(log, "godwit: server: ") || !strings.Contains(log, "node n2: a node of this name runs already") {
		t.Errorf("it does not say why:\n%s", log)
	}
	if c.Nodes[1].Exited() {
		t.Error("the first one ended")
	}
	if err := c.Nodes[1].API().Publish(t.Context(), map[string]any{"to": "ann", "title": "still here"}); err != nil {
		t.Error(err)
	}
}

// TestANodeWithAnotherSecretStaysOutside: the other nodes exchange no messages with it and report it as missing. It shares their store.
func TestANodeWithAnotherSecretStaysOutside(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return url }})
	const other = "a secret that nobody else has"
	stranger := second(t, c, url, "n3", other)
	if err := stranger.Launch(); err != nil {
		t.Fatal(err)
	}
	blackbox.Eventually(t, "both sides say that they are not joined", func() error {
		for who, n := range map[string]*blackbox.Server{"the stranger": stranger, "the node that it asked": c.Nodes[1]} {
			if !strings.Contains(n.Log(), "its cluster_secret_file differs") {
				return errors.New(who + " does not")
			}
		}
		return nil
	})
	listed(t, c.Nodes[1], "n3", "its cluster_secret_file differs")
	listed(t, stranger, Name(1), "its cluster_secret_file differs")
	for _, n := range append(c.Nodes, stranger) {
		want := map[bool]float64{true: 0, false: 1}[n == stranger]
		blackbox.Eventually(t, "each hears whom it should", func() error {
			heard, err := n.API().Metric(t.Context(), `godwit_cluster_nodes{state="alive"`)
			if err == nil && heard != want {
				err = fmt.Errorf("it hears %v others, want %v", heard, want)
			}
			return err
		})
		if strings.Contains(n.Log(), Secret) || strings.Contains(n.Log(), other) {
			t.Error("a secret is in the log")
		}
	}
}
