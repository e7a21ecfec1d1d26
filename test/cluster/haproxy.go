package cluster

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// balanced is the number of nodes in the example's configuration of HAProxy.
const balanced = 3

// front starts HAProxy before three nodes, with the configuration of examples/cluster. It ends with the test or, at the latest, with the
// test's process. Without HAProxy the test is skipped, or fails if nothing may be skipped.
func front(t testing.TB, nodes []*blackbox.Server) *blackbox.Server {
	t.Helper()
	if len(nodes) != balanced {
		t.Fatalf("HAProxy's configuration is for %d nodes, not for %d", balanced, len(nodes))
	}
	haproxy := blackbox.Tool(t, "haproxy")
	s := blackbox.At(t, blackbox.Free(t), blackbox.Free(t))
	env := append(os.Environ(), "HTTP="+s.HTTP, "GRPC="+s.GRPC, "CHECK=30s") // slow checks, so that nodes on a busy machine do not count as dead
	for i, n := range nodes {
		_, port, err := net.SplitHostPort(n.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, fmt.Sprintf("HTTP%d=%s", i+1, n.HTTP), fmt.Sprintf("GRPC%d=%s", i+1, n.GRPC), fmt.Sprintf("HTTP%d_PORT=%s", i+1, port))
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "haproxy.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// The shell waits for the end of its input, at the latest the end of this process.
	const script = `trap '' INT; "$@" & cat; kill $!; wait $!`
	cmd := exec.Command("/bin/sh", "-c", script, "sh", haproxy, "-db", "-f", filepath.Join(blackbox.Root(), "examples", "cluster", "haproxy.cfg"))
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("start HAProxy: %v", err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait() // ended by a signal
		if said, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("log of HAProxy:\n%s", said)
		}
	})
	for _, addr := range []string{s.HTTP, s.GRPC} {
		blackbox.Eventually(t, "HAProxy listens", func() error {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
			return err
		})
	}
	return s
}
