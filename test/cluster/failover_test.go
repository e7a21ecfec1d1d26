package cluster

import (
	"flag"
	"fmt"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

var failover = flag.Bool("failover", false, "have a replica take over that lacks the last commits")

// TestAReplicaThatLacksTheLastCommitsTakesOver: the data of these commits is lost, and the nodes' cached data about it must do no harm: the
// replica assigns the same keys, positions and numbers to others.
func TestAReplicaThatLacksTheLastCommitsTakesOver(t *testing.T) {
	if !*failover {
		t.Skip("copies a database that runs: -failover runs it")
	}
	db := pgtest.Start(t, pgtest.Options{})
	url, wire := over(t, db.URL())
	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return url }, Serve: []blackbox.Option{blackbox.Plain()}})
	api := c.Nodes[0].API()
	ann := dial(t, c.Nodes[1], "ws", "ann")
	stored := func(id string) { // and acknowledged
		t.Helper()
		blackbox.Eventually(t, id+" is stored", func() error {
			return api.Publish(t.Context(), map[string]any{"to": "ann", "id": id, "title": id})
		})
		next(t, ann, id)
		blackbox.Eventually(t, id+" is acknowledged", func() error { return api.WantState(t.Context(), id, "ann", "acked") })
	}
	stored("kept")
	replica := db.Replica(t)
	stored("lost")
	many := func(who string, n int) (to []string) { // more than a sequence allocates ahead in the log
		for i := range 100 {
			to = append(to, fmt.Sprint(who, "-", n, "-", i))
		}
		return to
	}
	for i, n := range c.Nodes { // the replica assigns their keys to new recipients
		if err := n.API().Publish(t.Context(), map[string]any{"to": many("unknown", i), "id": fmt.Sprint("lost-", i), "title": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	db.Kill()
	wire.Lead(replica.Socket())

	for _, who := range []string{"newcomer", "unknown"} {
		for i, n := range c.Nodes {
			blackbox.Eventually(t, Name(i)+" stores again", func() error {
				return n.API().Publish(t.Context(), map[string]any{"id": fmt.Sprint("for-", who), "to": many(who, i), "title": "x"})
			})
		}
	}
	for _, who := range []string{"newcomer", "unknown"} {
		for i := range c.Nodes {
			for _, to := range many(who, i)[90:] {
				next(t, dial(t, c.Nodes[0], "ws", to), "for-"+who)
			}
		}
	}
	stored("after")
	stored("lost") // is not there any more
}
