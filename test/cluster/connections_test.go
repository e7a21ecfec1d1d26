package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// TestNodesWithoutAConnectionToSpareRefuseAndHeal: other clients use up all connections that PostgreSQL allows.
func TestNodesWithoutAConnectionToSpareRefuseAndHeal(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	const connections = 100
	db := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"max_connections": fmt.Sprint(connections), "superuser_reserved_connections": "0"}})
	admin := connect(t, db.URL())
	do(t, admin, "CREATE ROLE node LOGIN; GRANT CREATE ON DATABASE postgres TO node")
	nodes := strings.Replace(db.URL(), "user=postgres", "user=node", 1)
	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return nodes }, Serve: []blackbox.Option{blackbox.Plain()}})
	link := dial(t, c.Nodes[1], "ws", "ann")
	publish(t, c.Nodes[0], "ann", "before")
	next(t, link, "before")
	ctx, cancel := context.WithTimeout(t.Context(), 3*blackbox.Patience)
	defer cancel()
	heard, came := topics(ctx, t, c.Nodes[0]), arrivals(ctx, link)

	s := strangers{t: t, url: db.URL()}
	t.Cleanup(s.leave)
	// Nodes reconnect immediately, so this forbids it while the strangers take all connections.
	do(t, admin, "ALTER ROLE node CONNECTION LIMIT 0")
	blackbox.Eventually(t, "strangers have all connections", func() error {
		do(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'")
		if s.come(); len(s.have) < connections-1 { // one is the test's
			return fmt.Errorf("they have %d of %d", len(s.have), connections)
		}
		return nil
	})
	do(t, admin, "ALTER ROLE node CONNECTION LIMIT -1")
	for i, n := range c.Nodes {
		api := n.API()
		for range 20 { // more tries than a node has broken connections, which it finds first
			a, err := api.Do(ctx, http.MethodPost, "/v1/notifications", map[string]any{"id": fmt.Sprint("during-", i), "to": "ann", "title": "x"})
			if err != nil || a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(string(a.Body), "/problems/store-away") {
				t.Fatalf("%s answers %+v, %v", Name(i), a, err)
			}
		}
	}
	answer, err := c.Nodes[1].API().Do(ctx, http.MethodPost, "/v1/topics/t", []byte("x"))
	if err != nil || answer.Status >= 300 {
		t.Fatalf("publish to a topic: %+v, %v", answer, err)
	}
	select {
	case got := <-heard:
		if got != "t" {
			t.Errorf("heard %s", got)
		}
	case <-ctx.Done():
		t.Fatal("the message of a topic never came")
	}

	s.leave()
	for i, n := range c.Nodes {
		blackbox.Eventually(t, Name(i)+" stores again", func() error {
			return n.API().Publish(ctx, map[string]any{"id": fmt.Sprint("during-", i), "to": "ann", "title": "x"})
		})
	}
	for want := map[string]bool{"during-0": true, "during-1": true}; len(want) > 0; {
		n := <-came
		if n.err != nil {
			t.Fatalf("%v; %v are left", n.err, want)
		}
		delete(want, n.id)
	}
}

// arrival is the id of a received notification, or the reason why no more arrive.
type arrival struct {
	id  string
	err error
}

// arrivals reads continuously: a client that does not read answers no ping, and its session ends.
func arrivals(ctx context.Context, link blackbox.Link) <-chan arrival {
	came := make(chan arrival, 1000) // more than any test receives
	go func() {
		for {
			n, err := blackbox.NextNotification(ctx, link)
			if err != nil {
				came <- arrival{err: err}
				return
			}
			came <- arrival{id: n.ID}
		}
	}()
	return came
}

// strangers hold connections to a database.
type strangers struct {
	t    *testing.T
	url  string
	have []*pgx.Conn
}

// come connects until no connection is left.
func (s *strangers) come() {
	s.t.Helper()
	const tooMany = "53300"
	for {
		conn, err := pgx.Connect(s.t.Context(), s.url)
		var refused *pgconn.PgError
		switch {
		case err == nil:
			s.have = append(s.have, conn)
		case errors.As(err, &refused) && refused.Code == tooMany:
			return
		default:
			s.t.Fatal(err)
		}
	}
}

func (s *strangers) leave() {
	for _, conn := range s.have {
		_ = conn.Close(context.Background())
	}
	s.have = nil
}
