// Package mariatest starts a real MariaDB for tests. It needs MariaDB's programs, but no service and no container, and leaves nothing behind.
package mariatest

import (
	"errors"
	"os"
	"testing"

	"godwit.dev/godwit/internal/testkit/mariaserver"
)

// Start starts a server for one test, which ends with the test. Without MariaDB the test is skipped, or fails if GODWIT_TEST_STRICT is set.
func Start(t testing.TB) *mariaserver.Server {
	t.Helper()
	s, err := mariaserver.Start()
	switch {
	case errors.Is(err, mariaserver.ErrMissing) && os.Getenv("GODWIT_TEST_STRICT") != "":
		t.Fatalf("cannot be skipped here: %v", err)
	case errors.Is(err, mariaserver.ErrMissing):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
