// Package mariatest starts a real MariaDB for tests. It needs MariaDB's programs, but no service and no container, and leaves nothing behind.
package mariatest

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/internal/testkit/mariaserver"
)

// Server is a MariaDB of a test.
type Server struct {
	*mariaserver.Server
	CA string // vouches for the server, PEM
}

// Start starts a server for one test, which ends with the test. Without MariaDB the test is skipped, or fails if GODWIT_TEST_STRICT is set.
func Start(t testing.TB) *Server {
	t.Helper()
	s := start(t)
	t.Cleanup(s.Close)
	return s
}

func start(t testing.TB) *Server {
	t.Helper()
	certFile, keyFile, _ := certstest.Issue(t, t.TempDir(), "shop")
	ca, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mariaserver.Start(mariaserver.Options{CertFile: certFile, KeyFile: keyFile})
	switch {
	case errors.Is(err, mariaserver.ErrMissing) && os.Getenv("GODWIT_TEST_STRICT") != "":
		t.Fatalf("cannot be skipped here: %v", err)
	case errors.Is(err, mariaserver.ErrMissing):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return &Server{s, string(ca)}
}

// shared is the server of this test binary. It ends with the process.
var shared struct {
	sync.Mutex
	s *Server
	n int // databases
}

// Database returns a server that all tests of this binary share, and the name of a new database there, which is dropped when the test ends.
func Database(t testing.TB) (s *Server, name string) {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.s == nil {
		shared.s = start(t)
	}
	shared.n++
	name = "shop" + strconv.Itoa(shared.n)
	if err := shared.s.Do("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.s.Do("DROP DATABASE " + name); err != nil {
			t.Error(err)
		}
	})
	return shared.s, name
}
