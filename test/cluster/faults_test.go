package cluster

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

var (
	faultsFor = flag.Duration("faults", time.Duration(thorough.Rounds(4, 8))*time.Second, "how long nodes are killed and the bus is cut under load")
	killEvery = flag.Duration("kill-every", time.Duration(thorough.Rounds(2, 4))*time.Second, "how often a node is killed meanwhile")
	cutFor    = flag.Duration("cut-for", time.Duration(thorough.Rounds(2, 4))*time.Second, "how long the bus is cut between two nodes, after each second kill")
	dbKills   = flag.Int("postgres-kills", thorough.Rounds(1, 2), "how often PostgreSQL is killed under load")
	chats     = flag.Int("chats", 0, "how many chats a campaign goes to meanwhile, with a hook that is posted who comes online; 0: neither")
	within    = flag.Duration("within", blackbox.Patience, "how soon after a fault objects must be known; 5s is promised where nothing else runs")
)

// TestNothingIsLostWhileNodesDieAndTheBusIsCut: clients and back ends see only temporary errors.
func TestNothingIsLostWhileNodesDieAndTheBusIsCut(t *testing.T) {
	blackbox.Long(t)
	url := pgtest.Database(t)
	c := Start(t, Options{Postgres: func(int) string { return url }, Serve: []blackbox.Option{blackbox.Plain(), blackbox.Args("--allow-private-urls")}})
	var b *beside
	if *chats > 0 {
		b = startBeside(t, c, url, *chats)
	}
	l := startLoad(t, c.Front())
	r := rand.New(rand.NewPCG(3, 3))
	worst := map[string]time.Duration{}
	told := func(what string) { worst[what] = max(worst[what], l.told(what)) }
	kills, cuts := 0, 0
	for begun := time.Now(); time.Since(begun) < *faultsFor; {
		l.goesOn(*killEvery)
		i := r.IntN(len(c.Nodes))
		if b != nil {
			i = b.victim(i)
		}
		c.Nodes[i].Kill()
		told("after a kill")
		if b != nil {
			b.killed(i)
		}
		if err := c.Nodes[i].Launch(); err != nil {
			t.Fatal(err)
		}
		if kills++; kills%2 == 0 {
			continue
		}
		c.Joined(len(c.Nodes))
		j := (i + 1) % len(c.Nodes)
		c.Cut(i, j)
		c.Missed(i, j)
		told("beyond a cut")
		l.goesOn(*cutFor)
		c.Heal(i, j)
		told("after a cut")
		cuts++
	}
	l.end()
	if b != nil {
		b.end()
	}
	t.Logf("%d kills, %d cuts; objects were known at the latest: %v", kills, cuts, worst)
	for what, took := range worst {
		if took > *within {
			t.Errorf("objects were known only %s %s", took, what)
		}
	}
}
