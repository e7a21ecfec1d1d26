package foreign

import (
	"testing"

	"godwit.dev/godwit/internal/testkit/redisserver"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

func startAround(t testing.TB, seeds ...string) *around {
	return &around{seeds: seeds, auth: startAuth(t), driver: startDriverAPI(t)}
}

// startCluster starts three masters that share the keys, and returns them with their addresses.
func startCluster(t testing.TB) (c *redisserver.Cluster, seeds []string) {
	t.Helper()
	c = redistest.StartCluster(t, false)
	for _, m := range c.Masters {
		seeds = append(seeds, m.Addr())
	}
	return c, seeds
}
