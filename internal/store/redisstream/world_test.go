package redisstream

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/redisserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts Redis for one test.
func serve(t *testing.T, settings ...string) *redisserver.Server {
	t.Helper()
	s, err := redisserver.Start(redisserver.Options{Settings: settings})
	if errors.Is(err, redisserver.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// serveCluster starts three masters with a replica each.
func serveCluster(t *testing.T) *redisserver.Cluster {
	t.Helper()
	c, err := redisserver.StartCluster(redisserver.Options{}, 3, true)
	if errors.Is(err, redisserver.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// do has Redis carry out a command.
func do(t *testing.T, s *redisserver.Server, command string) string {
	t.Helper()
	answer, err := s.Do(command)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// until waits for something to become so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(deadline) {
			t.Fatalf("a minute has passed without %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
