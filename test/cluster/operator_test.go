package cluster

import (
	"errors"
	"os"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// TestOneOperatorKeyServesAllNodes: nodes that start at once make one operator key together. One of them has it in its folder, each accepts
// it, and what one node replaces ends on all.
func TestOneOperatorKeyServesAllNodes(t *testing.T) {
	c := Start(t, Options{Nodes: 3})
	file := blackbox.OperatorKey(t, c.Nodes...)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	manage := func(n *blackbox.Server, key string, args ...string) (string, error) {
		t.Helper()
		return n.Run(append(args, "--url", n.URL(""), "--operator-key-file", key)...)
	}
	for i, n := range c.Nodes {
		app := "of-" + Name(i)
		if out, err := manage(n, file, "app", "create", app); err != nil {
			t.Fatalf("node %d: %v\n%s", i, err, out)
		}
		for j, other := range c.Nodes {
			blackbox.Eventually(t, "every node knows the app", func() error {
				if out, err := manage(other, file, "app", "list"); err != nil || !strings.Contains(out, app) {
					return errors.New(Name(j) + " does not: " + out)
				}
				return nil
			})
		}
	}

	former := t.TempDir() + "/former"
	if err := os.WriteFile(former, before, 0o600); err != nil {
		t.Fatal(err)
	}
	last := c.Nodes[2]
	if out, err := manage(last, former, "operator", "rotate"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	now := last.Dir + "/operator.key" // the node that answered has the new one
	for i, n := range c.Nodes {
		blackbox.Eventually(t, "every node takes the new key and refuses the former", func() error {
			if out, err := manage(n, now, "app", "list"); err != nil {
				return errors.New(Name(i) + " refuses the new key: " + out)
			}
			out, err := manage(n, former, "app", "list")
			if err == nil {
				return errors.New(Name(i) + " takes the former key")
			}
			if !strings.Contains(out, "not the operator key of this server, or not any more") || !strings.Contains(out, "godwit login") {
				t.Errorf("who has the former key reads %s", out)
			}
			return nil
		})
	}
	if text, err := os.ReadFile(now); err == nil {
		for _, n := range c.Nodes {
			if strings.Contains(n.Log(), strings.TrimSpace(string(text))) {
				t.Error("a log has the new operator key")
			}
		}
	}
}
