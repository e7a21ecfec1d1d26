package compat

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"godwit.dev/godwit/bench/redispub"
	"godwit.dev/godwit/test/blackbox"
)

func startAround(t testing.TB, seeds ...string) *around {
	return &around{seeds: seeds, auth: startAuth(t), driver: startDriverAPI(t)}
}

// startRedis starts a Redis server.
func startRedis(t testing.TB) (addr string) {
	t.Helper()
	addr = blackbox.Free(t)
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.Command(blackbox.Tool(t, "redis-server"), "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	blackbox.Eventually(t, "redis", func() error {
		c, err := redispub.Dial(context.Background(), addr)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Do("PING")
		return err
	})
	return addr
}
