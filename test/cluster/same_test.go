package cluster

import (
	"fmt"
	"net/http"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneIDAtOnce publishes one ID on two nodes: one stores it, and the other knows it or, where the contents differ, refuses.
func oneIDAtOnce(t *testing.T, c *Cluster) {
	apis := []*blackbox.API{c.Nodes[0].API(), c.Nodes[1].API()}
	both := func(id string, title func(i int) string) (statuses [2]int) {
		var g errgroup.Group
		for i, api := range apis {
			g.Go(func() error {
				a, err := api.Do(t.Context(), http.MethodPost, "/v1/notifications", map[string]any{"id": id, "to": "ann", "title": title(i)})
				if err == nil {
					statuses[i] = a.Status
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if statuses[0] > statuses[1] {
			statuses[0], statuses[1] = statuses[1], statuses[0]
		}
		return statuses
	}
	rounds := thorough.Rounds(15, 50)
	for i := range rounds {
		if got := both(fmt.Sprint("same-", i), func(int) string { return "one" }); got != [2]int{http.StatusOK, http.StatusCreated} {
			t.Errorf("the same twice: %v", got)
		}
		if got := both(fmt.Sprint("other-", i), func(i int) string { return fmt.Sprint(i) }); got != [2]int{http.StatusCreated, http.StatusConflict} {
			t.Errorf("two contents: %v", got)
		}
	}
	pending, err := c.Front().API().Pending(t.Context())
	if pending != 2*rounds || err != nil {
		t.Errorf("%d are pending, want %d: %v", pending, 2*rounds, err)
	}
}
