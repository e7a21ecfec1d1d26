package pgtest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// asChild is the environment variable that makes the test binary start a server and print its address, for a test that kills it.
const asChild = "GODWIT_PGTEST_CHILD"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func exec1(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func number(t *testing.T, c *pgx.Conn, sql string) (n int) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func TestSchemasAndDatabasesGoWithTheirTest(t *testing.T) {
	c := connect(t, pgtest.URL(t))
	var schema, database string
	t.Run("inner", func(t *testing.T) {
		schema = pgtest.Schema(t)
		exec1(t, c, "CREATE SCHEMA "+schema)
		exec1(t, c, "CREATE TABLE "+schema+".t (a int)")
		database = pgtest.Database(t)
		in := connect(t, database)
		exec1(t, in, "CREATE TABLE t (a int)")
	})
	if n := number(t, c, "SELECT count(*) FROM pg_namespace WHERE nspname = '"+schema+"'"); n != 0 {
		t.Error("the schema is still there")
	}
	if n := number(t, c, "SELECT count(*) FROM pg_database WHERE datname LIKE 'test_%'"); n != 0 {
		t.Error("the database is still there")
	}
}

func TestCommitsSurviveKill(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{Fsync: true})
	c := connect(t, s.URL())
	exec1(t, c, "CREATE TABLE t (a int)")
	exec1(t, c, "INSERT INTO t VALUES (7)")
	s.Kill()
	if _, err := c.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	if n := number(t, connect(t, s.URL()), "SELECT a FROM t"); n != 7 {
		t.Errorf("got %d", n)
	}
}

func TestAStoppedServerAnswersWhenItGoesOn(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	c := connect(t, s.URL())
	s.Stop()
	answered := make(chan error, 1)
	go func() {
		_, err := c.Exec(t.Context(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a stopped server answered: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.Continue()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestNothingIsLeftOfAKilledTest kills a test binary that has started a server, and waits until the server and its files are gone.
func TestNothingIsLeftOfAKilledTest(t *testing.T) {
	if os.Getenv(asChild) != "" {
		if _, err := io.WriteString(os.Stdout, "server at "+pgtest.URL(t)+"\n"); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // the process is killed during this read; nothing is ever written to its input
		t.Fatal("its standard input has ended")
	}
	pgtest.URL(t) // skips without PostgreSQL
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNothingIsLeftOfAKilledTest$")
	cmd.Env = append(os.Environ(), asChild+"=1")
	if _, err := cmd.StdinPipe(); err != nil { // stays open
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		_, url, _ = strings.Cut(lines.Text(), "server at ")
	}
	c := connect(t, url)
	var dir string
	if err := c.QueryRow(t.Context(), "SHOW unix_socket_directories").Scan(&dir); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist); _, err = os.Stat(dir) {
		if t.Context().Err() != nil {
			t.Fatalf("%s is still there", dir)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := c.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the server still answers")
	}
}
