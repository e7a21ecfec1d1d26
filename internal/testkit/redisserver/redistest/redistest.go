// Package redistest starts a real Redis for tests, alone or as a cluster. It needs the program redis-server, but no service and no
// container, and leaves nothing behind.
package redistest

import (
	"errors"
	"os"
	"testing"

	"godwit.dev/godwit/internal/testkit/redisserver"
)

// Start starts a server for one test, which ends with the test. Acknowledged writes survive a kill. settings are lines of redis.conf in
// their command-line form. Without redis-server the test is skipped, or fails if GODWIT_TEST_STRICT is set.
func Start(t testing.TB, settings ...string) *redisserver.Server {
	t.Helper()
	s, err := redisserver.Start(redisserver.Options{Settings: settings})
	needed(t, err)
	t.Cleanup(s.Close)
	return s
}

// StartCluster starts three masters that share the keys, each with a replica if replicas is true. Otherwise it is like Start.
func StartCluster(t testing.TB, replicas bool) *redisserver.Cluster {
	t.Helper()
	c, err := redisserver.StartCluster(redisserver.Options{}, 3, replicas)
	needed(t, err)
	t.Cleanup(c.Close)
	return c
}

func needed(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, redisserver.ErrMissing) && os.Getenv("GODWIT_TEST_STRICT") != "":
		t.Fatalf("cannot be skipped here: %v", err)
	case errors.Is(err, redisserver.ErrMissing):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}
