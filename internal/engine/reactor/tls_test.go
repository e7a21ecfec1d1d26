package reactor

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// TestTLSKeyUpdates makes OpenSSL change its keys and request a change of ours while both sides write.
func TestTLSKeyUpdates(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		blackbox.Skip(t, "there is no openssl, and crypto/tls cannot ask for a key update")
	}
	for _, d := range drivers() {
		t.Run(d, func(t *testing.T) {
			h := newHarness(t, Config{Driver: d}, true)
			conns := make(chan *Conn, 1)
			addr := h.handle(func(c *Conn) Handler { conns <- c; return echo(c) })
			cmd := exec.CommandContext(t.Context(), openssl, "s_client", "-connect", addr, "-tls1_3")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = cmd.Stdout
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := make(chan string, 100)
			var wg sync.WaitGroup
			wg.Go(func() {
				for s := bufio.NewScanner(out); s.Scan(); {
					lines <- s.Text()
				}
			})
			expect := func(want string) {
				t.Helper()
				for !strings.HasPrefix(wait(t, lines, want), want) {
				}
			}
			c := wait(t, conns, "the connection")
			for i := range 4 {
				fmt.Fprintf(in, "from the client %d\n", i)
				expect(fmt.Sprintf("from the client %d", i))
				fmt.Fprint(in, "K\n") // a command: update both directions
				expect("KEYUPDATE")
				fmt.Fprintf(in, "updated %d\n", i)
				expect(fmt.Sprintf("updated %d", i))
				if !c.Write([]byte("from the server "), fmt.Appendf(nil, "%d\n", i)) {
					t.Fatal("a write was refused")
				}
				expect(fmt.Sprintf("from the server %d", i))
			}
			fmt.Fprint(in, "Q\n")
			wg.Wait()
			_ = cmd.Wait()
		})
	}
}
