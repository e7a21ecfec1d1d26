// Package pgtest starts a real PostgreSQL for tests: one server for all tests of a test binary, or one that a test may kill and stop. It
// needs PostgreSQL's programs, but no service and no container, and leaves nothing behind.
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/testkit/pgserver"
)

// patience is the longest wait for anything that normally takes less than a second.
const patience = time.Minute

// Options of a server. The zero value is the fastest: it loses everything when the machine stops.
type Options = pgserver.Options

// Server is a PostgreSQL server for tests. It listens on a socket in its own folder, and accepts every connection there.
type Server struct{ *pgserver.Server }

// Start starts a server of the test's own, which is removed when the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	needed(t)
	s, err := pgserver.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &Server{s}
}

// Restart starts the server on its existing files, after ending it if it runs, and waits until it accepts connections.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.Server.Restart(); err != nil {
		t.Fatal(err)
	}
}

// Crash starts another server on a copy of the current files, as if this one had been killed. This one continues. The other is removed when
// the test ends.
func (s *Server) Crash(t testing.TB) *Server {
	t.Helper()
	c, err := s.Server.Crash()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &Server{c}
}

// Replica starts another server with all that this one has committed so far, like a replica that takes over. Both are primaries, and their
// histories differ from here on. The new one is removed when the test ends.
func (s *Server) Replica(t testing.TB) *Server {
	t.Helper()
	c, err := s.Server.Replica()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &Server{c}
}

// Standby starts a replica that follows this server until Promote. It is removed when the test ends.
func (s *Server) Standby(t testing.TB, name string) *Server {
	t.Helper()
	c, err := s.Server.Standby(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &Server{c}
}

// shared is the server of this test binary. It ends with the process.
var shared struct {
	sync.Mutex
	s *Server
}

func sharedServer(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.s == nil {
		needed(t)
		s, err := pgserver.Start(Options{})
		if err != nil {
			t.Fatal(err)
		}
		shared.s = &Server{s}
	}
	return shared.s
}

// URL returns the address of a database of the server that all tests of this binary share; first use starts it. Without PostgreSQL's
// programs the test is skipped, or fails if GODWIT_TEST_STRICT is set.
func URL(t testing.TB) string {
	t.Helper()
	return sharedServer(t).URL()
}

// Schema returns the name of a schema of the shared server that no other test uses. It is dropped when the test ends.
func Schema(t testing.TB) string {
	t.Helper()
	return sharedServer(t).Schema(t)
}

// Database returns the URL of a new database of the shared server. It is dropped when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	return sharedServer(t).Database(t)
}

// Schema returns the name of a schema of this server that no other test uses. It is dropped when the test ends.
func (s *Server) Schema(t testing.TB) string {
	t.Helper()
	name := "test_" + random()
	t.Cleanup(func() { s.exec(t, "SET client_min_messages = warning", "DROP SCHEMA IF EXISTS "+name+" CASCADE") })
	return name
}

// Database returns the URL of a new database of this server. It is dropped when the test ends.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "test_" + random()
	s.exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { s.exec(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	return s.Of(name)
}

// exec runs statements in the server's own database. It does nothing if the server does not run, since such a server needs no cleanup.
func (s *Server) exec(t testing.TB, statements ...string) {
	t.Helper()
	if !s.Running() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		t.Errorf("connect to PostgreSQL: %v", err)
		return
	}
	defer c.Close(ctx)
	for _, statement := range statements {
		if _, err := c.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

func random() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// needed skips a test where PostgreSQL's programs are not installed.
func needed(t testing.TB) {
	t.Helper()
	if _, err := pgserver.Programs(); err != nil {
		if os.Getenv("GODWIT_TEST_STRICT") != "" {
			t.Fatalf("cannot be skipped here: %v", err)
		}
		t.Skip(err)
	}
}
