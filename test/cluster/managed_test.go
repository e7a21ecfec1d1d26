package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// TestARoleWithoutSuperuserIsEnough: a managed database gives one role, which owns nothing but may make schemas in its database. Where the
// role lacks a right, the program says which, and who gives it.
func TestARoleWithoutSuperuserIsEnough(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	db := pgtest.Start(t, pgtest.Options{Fsync: true})
	statements(t, db, "CREATE ROLE app LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION", "CREATE DATABASE shop", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	url := db.As("app", "shop")

	for _, command := range [][]string{{"doctor"}, {"app", "create", "green", "--local"}} {
		out, err := program(t, url, command...)
		if err == nil {
			t.Errorf("%s works without the right to make schemas", command)
		}
		says(t, out, "user app may not make schemas in database shop", "GRANT CREATE ON DATABASE shop TO app")
	}
	statements(t, db, "GRANT CREATE ON DATABASE shop TO app")

	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return url }, Serve: []blackbox.Option{blackbox.Plain()}})
	api := c.Nodes[0].API()
	ann := dial(t, c.Nodes[1], "ws", "ann")
	if err := api.Publish(t.Context(), map[string]any{"to": "ann", "id": "one", "title": "x"}); err != nil {
		t.Fatal(err)
	}
	next(t, ann, "one")
	blackbox.Eventually(t, "it is acknowledged", func() error { return api.WantState(t.Context(), "one", "ann", "acked") })

	hold(t, db.Of("shop"))
	out, err := program(t, url, "doctor")
	if err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	says(t, out, "user app makes its own schemas", "as far as user app sees", "GRANT pg_monitor TO app")
	statements(t, db, "GRANT pg_monitor TO app")
	if out, _ = program(t, url, "doctor"); strings.Contains(out, "as far as user app sees") {
		t.Errorf("with pg_monitor doctor still says\n%s", out)
	}
	for _, owner := range owners(t, db.Of("shop")) {
		if owner != "app" {
			t.Errorf("a schema belongs to %s", owner)
		}
	}
}

// program runs a command on a database.
func program(t *testing.T, url string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), blackbox.Binary(t, false), append(args, "--data", t.TempDir())...)
	cmd.Env = append(os.Environ(), "GODWIT_POSTGRES="+url)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func says(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

// hold leaves a transaction of the superuser open until the test ends.
func hold(t *testing.T, url string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	if _, err := c.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
		t.Fatal(err)
	}
	var at time.Time
	if err := c.QueryRow(t.Context(), "SELECT now()").Scan(&at); err != nil {
		t.Fatal(err)
	}
}

// owners lists the owners of the schemas that nodes have made.
func owners(t *testing.T, url string) (list []string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	rows, err := c.Query(t.Context(), "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname LIKE 'godwit\\_%'")
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil || len(list) < 6 {
		t.Fatal(fmt.Errorf("schemas of %v: %w", list, err))
	}
	slices.Sort(list)
	return slices.Compact(list)
}
