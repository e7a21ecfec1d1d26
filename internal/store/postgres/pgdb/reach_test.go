package pgdb_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestADatabaseThatFallsSilentIsLostUntilItAnswers(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	reach, err := pgdb.Watch(server.URL(), nil)
	ok(t, err)
	defer reach.Close()
	db := open(t, pgdb.Config{URL: server.URL(), Schema: "s", Migrations: oneTable, Reach: reach})
	eventually.True(t, "the watch has heard of it", func() bool { return reach.Lost() == 0 && reach.Heard() < time.Second })
	eventually.True(t, "it answers steadily", func() bool { return reach.Steady() > time.Second })
	// A query under way is aborted, whatever its own deadline.
	asked := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		asked <- db.Do(context.Background(), "sleep", func(ctx context.Context, tx pgx.Tx) error {
			close(begun)
			_, err := tx.Exec(ctx, "SELECT pg_sleep(3600)")
			return err
		})
	}()
	<-begun
	server.Stop()
	eventually.True(t, "the database is lost", func() bool { return reach.Lost() > 0 })
	if steady := reach.Steady(); steady != 0 {
		t.Errorf("a lost database has answered for %s", steady)
	}
	if err := <-asked; !pgdb.Away(err) {
		t.Errorf("a query under way: %v, want that the database is away", err)
	}
	if err := db.Do(t.Context(), "count", exec(db, "SELECT count(*) FROM t")); !pgdb.Away(err) || !strings.Contains(err.Error(), "cannot be reached from this node") {
		t.Errorf("a query meanwhile: %v", err)
	}
	server.Continue()
	eventually.True(t, "the database is found again", func() bool { return reach.Lost() == 0 && reach.Steady() > 0 })
	ok(t, db.Do(t.Context(), "count", exec(db, "SELECT count(*) FROM t")))
}

// A server that starts while its database is busy waits for it.
func TestDatabaseIsNotLostWhileItsSilenceCountsForNothing(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	reach, err := pgdb.Watch(server.URL(), nil)
	ok(t, err)
	defer reach.Close()
	release := reach.Hold()
	db := open(t, pgdb.Config{URL: server.URL(), Schema: "s", Migrations: oneTable, Reach: reach})
	eventually.True(t, "the watch has heard of it", func() bool { return reach.Heard() < time.Second && reach.Steady() > 0 })
	server.Stop()
	asked := make(chan error, 1)
	go func() { asked <- db.Do(context.Background(), "count", exec(db, "SELECT count(*) FROM t")) }()
	eventually.True(t, "it has been silent for longer than it may", func() bool { return reach.Heard() > 2*time.Second })
	if lost := reach.Lost(); lost > 0 {
		t.Errorf("it is lost for %s", lost)
	}
	server.Continue()
	ok(t, <-asked)
	release()
	server.Stop()
	eventually.True(t, "the database is lost", func() bool { return reach.Lost() > 0 })
	server.Continue()
}

// Operators identify connections by their names.
func TestTheWatchOfADatabaseIsNamedAsOtherConnectionsAre(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	other, err := pgx.Connect(t.Context(), server.URL())
	ok(t, err)
	for name, url := range map[string]string{"godwit": server.URL(), "ours": server.URL() + "&application_name=ours"} {
		reach, err := pgdb.Watch(url, nil)
		ok(t, err)
		eventually.True(t, name+" is listed", func() (is bool) {
			ok(t, other.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1)", name).Scan(&is))
			return is
		})
		ok(t, reach.Close())
	}
	ok(t, other.Close(context.Background()))
}

// Most people have a server without TLS and a URL without sslmode: pgx tries both, and only one of the two errors is useful.
func TestErrorsOfConnectingBeginWithTheirCause(t *testing.T) {
	url := strings.Replace(pgtest.URL(t), "sslmode=disable", "sslmode=prefer", 1)
	if !strings.Contains(url, "user=postgres") {
		t.Fatalf("the URL %s names no user", url)
	}
	for name, c := range map[string]struct{ url, want string }{
		"an unknown user":         {strings.Replace(url, "user=postgres", "user=nobody_at_all", 1), `role "nobody_at_all" does not exist`},
		"a port without a server": {"postgres://postgres@127.0.0.1:1/postgres?sslmode=prefer", "connection refused"},
	} {
		_, err := pgdb.Open(t.Context(), pgdb.Config{URL: c.url, Schema: "s", Migrations: oneTable})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "tls error") || strings.Count(err.Error(), c.want) != 1 {
			t.Errorf("%s: %v; want %q once and nothing of TLS", name, err, c.want)
		}
		if errors.Unwrap(err) == nil {
			t.Errorf("%s: the error has lost its cause", name)
		}
	}
}
