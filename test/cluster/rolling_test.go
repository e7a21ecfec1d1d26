package cluster

import (
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// TestARollingRestartGoesUnnoticed stops and starts one node after the other under load.
func TestARollingRestartGoesUnnoticed(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	c := Start(t, Options{Serve: []blackbox.Option{blackbox.Plain()}})
	l := startLoad(t, c.Front)
	for i, n := range c.Nodes {
		if code := n.Stop(); code != 0 {
			t.Errorf("%s exited with %d", Name(i), code)
		}
		if err := n.Launch(); err != nil {
			t.Fatal(err)
		}
		c.Joined(len(c.Nodes))
		l.told("after the restart of " + Name(i))
	}
	l.end()
}
