package compat

import (
	"errors"
	"testing"

	"godwit.dev/godwit/internal/redisserver"
	"godwit.dev/godwit/test/blackbox"
)

func startAround(t testing.TB, seeds ...string) *around {
	return &around{seeds: seeds, auth: startAuth(t), driver: startDriverAPI(t)}
}

// startRedis starts a Redis server that keeps what it has answered when it is killed.
func startRedis(t testing.TB) *redisserver.Server {
	t.Helper()
	s, err := redisserver.Start(redisserver.Options{})
	needs(t, err)
	t.Cleanup(s.Close)
	return s
}

// startCluster starts three masters that share the keys, and the same as addresses.
func startCluster(t testing.TB) (c *redisserver.Cluster, seeds []string) {
	t.Helper()
	c, err := redisserver.StartCluster(redisserver.Options{}, 3, false)
	needs(t, err)
	t.Cleanup(c.Close)
	for _, m := range c.Masters {
		seeds = append(seeds, m.Addr())
	}
	return c, seeds
}

func needs(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, redisserver.ErrMissing) {
		blackbox.Skip(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
