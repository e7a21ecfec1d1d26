package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// TestNothingIsLostWhenPostgreSQLIsKilled: acknowledged data is there after the restart, and publishing continues.
func TestNothingIsLostWhenPostgreSQLIsKilled(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	thorough.Only(t, "TestSessionsBehindHAProxyOutliveADatabaseThatIsAway, which kills it as well, and TestTheHistoryOfAClusterUnderFaultsIsWhole")
	db := pgtest.Start(t, pgtest.Options{Fsync: true})
	c := Start(t, Options{Postgres: func(int) string { return db.URL() }, Serve: []blackbox.Option{blackbox.Plain()}})
	l := startLoad(t, c.Front())
	var worst, itself time.Duration
	for kill := range *dbKills {
		l.goesOn(2 * time.Second)
		db.Restart(t) // which kills it
		begun := time.Now()
		var again errgroup.Group
		for i, n := range c.Nodes {
			again.Go(func() error {
				api := n.API()
				defer api.HTTP.CloseIdleConnections()
				if err := blackbox.Poll(t.Context(), blackbox.Patience, func() error {
					return api.Publish(t.Context(), map[string]any{"id": fmt.Sprintf("after-%d-%d", kill, i), "to": "nobody", "title": "x", "ttl": "1s"})
				}); err != nil {
					return fmt.Errorf("%s does not store again: %w", Name(i), err)
				}
				return nil
			})
		}
		itself = max(itself, commits(t, db.URL(), begun))
		if err := again.Wait(); err != nil {
			t.Fatal(err)
		}
		worst = max(worst, time.Since(begun))
	}
	l.end()
	t.Logf("PostgreSQL was killed %d times; all nodes published again within %s of when it took connections, and it committed for a stranger within %s", *dbKills,
		worst.Round(time.Millisecond), itself.Round(time.Millisecond))
	if worst > *within {
		t.Errorf("nodes published only %s after PostgreSQL took connections", worst)
	}
}

// commits waits until a database has committed on a connection of the test's own, and returns how long that took.
func commits(t *testing.T, url string, begun time.Time) time.Duration {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	do(t, db, "CREATE TABLE IF NOT EXISTS stranger (n int)")
	do(t, db, "INSERT INTO stranger VALUES (1)")
	return time.Since(begun)
}

// over returns the URL of a database through a wire.
func over(t *testing.T, database string) (string, *Wire) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWire(t, "unix", u.Query().Get("host")+"/.s.PGSQL.5432")
	return fmt.Sprintf("postgres://%s@%s%s?sslmode=disable", u.Query().Get("user"), w.Addr(), u.Path), w
}

// TestNodesWithoutPostgreSQLSaySoAndSessionsAndTopicsGoOn cuts all nodes off from the database.
func TestNodesWithoutPostgreSQLSaySoAndSessionsAndTopicsGoOn(t *testing.T) {
	blackbox.Long(t)
	t.Parallel()
	wired, wire := over(t, pgtest.Database(t))
	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return wired }})
	ctx, cancel := context.WithTimeout(t.Context(), 3*blackbox.Patience)
	defer cancel()
	api, other := c.Nodes[0].API(), c.Nodes[1].API()
	link, err := c.Nodes[0].Dial(ctx, "ws", blackbox.Hello{App: "demo", Recipient: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Cut()
	if err := api.Publish(ctx, map[string]any{"id": "before", "to": "ann", "title": "x"}); err != nil {
		t.Fatal(err)
	}
	if n, err := blackbox.NextNotification(ctx, link); err != nil || n.ID != "before" {
		t.Fatalf("%+v, %v", n, err)
	}
	heard, came := topics(ctx, t, c.Nodes[0]), arrivals(ctx, link)
	wire.Cut()
	if err := link.Ack(ctx, "before"); err != nil {
		t.Fatal(err)
	}
	answer, err := api.Do(ctx, http.MethodPost, "/v1/notifications", map[string]any{"id": "during", "to": "ann", "title": "x"})
	if err != nil || answer.Status != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("publish without the database: %+v, %v", answer, err)
	}
	for i, from := range []*blackbox.API{api, other} {
		answer, err := from.Do(ctx, http.MethodPost, "/v1/topics/t", []byte(fmt.Sprint(i)))
		if err != nil || answer.Status >= 300 {
			t.Fatalf("publish to a topic: %+v, %v", answer, err)
		}
		if got := <-heard; got != "t" {
			t.Errorf("heard %s", got)
		}
	}
	blackbox.Eventually(t, "the node is not ready", func() error {
		answer, err := api.Do(ctx, http.MethodGet, "/readyz", nil)
		if err == nil && answer.Status == http.StatusOK {
			err = fmt.Errorf("it is: %s", answer.Body)
		}
		return err
	})
	wire.Heal()
	for i, node := range []*blackbox.API{api, other} {
		blackbox.Eventually(t, Name(i)+" stores again", func() error {
			return node.Publish(ctx, map[string]any{"id": []string{"during", "elsewhere"}[i], "to": "ann", "title": "x"})
		})
	}
	// They arrive over the bus, or from the database if the session was just comparing its state with it.
	for seen := map[string]bool{}; !seen["elsewhere"] || !seen["during"]; {
		n := <-came
		if n.err != nil {
			t.Fatalf("%v after %v", n.err, seen)
		}
		seen[n.id] = true
	}
	blackbox.Eventually(t, "the acknowledgement that waited counts", func() error { return api.WantState(ctx, "before", "ann", "acked") })
}

// topics receives the messages of all topics at a node; it is subscribed when it returns.
func topics(ctx context.Context, t *testing.T, n *blackbox.Server) <-chan string {
	t.Helper()
	heard := make(chan string, 10)
	of := godwit.NewTopics(func(_ context.Context, m *godwit.Message) { heard <- m.Topic })
	if err := of.Subscribe(">"); err != nil {
		t.Fatal(err)
	}
	client, err := godwit.New(n.URL(""), godwit.WithApp("demo"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	listening.Go(func() { _ = client.Listen(ctx, "listener", nil, godwit.Subscriptions(of)) })
	t.Cleanup(func() { cancel(); listening.Wait(); client.Close() })
	if err := of.Active(ctx); err != nil {
		t.Fatal(err)
	}
	return heard
}
