package attack

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// An attacker is a process of its own, this program once more, so that it shares no scheduler with the client whose waits
// are measured. It attacks the address that it is told on its standard input, each line another; an empty one: nobody.
//
// The sink is a further one that attackers may open connections to: it accepts and closes them, which is the least that any
// server must do. An attack on it costs the machine what one on the server costs, and does not touch the server.
const roleEnv = "GODWIT_ATTACK_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		_ = flag.Set("test.parallel", "8") // what runs at once waits more than it computes
		os.Exit(m.Run())
	case "sink":
		sink()
	case "quic":
		quicFlooder()
	default:
		attacker(floods[role].say)
	}
}

func sink() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(ln.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		if c, err := ln.Accept(); err == nil {
			_ = c.Close()
		}
	}
}

func attacker(say func(net.Conn)) {
	stop := func() int64 { return 0 }
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(stop())
		stop = func() int64 { return 0 }
		if to := in.Text(); to != "" {
			h := new(held)
			end := h.flood(context.Background(), to, floodRate, say)
			stop = func() int64 { end(); return h.tried.Load() }
		}
	}
}

// child is a process in one of these roles.
type child struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
}

func startChild(t *testing.T, role string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	in, out := blackbox.StartPiped(t, cmd)
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it ends with its input
	})
	return &child{t, in, bufio.NewScanner(out)}
}

func (c *child) line() string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("a process of the attack has ended: %v", c.out.Err())
	}
	return c.out.Text()
}

// attack makes the child attack another address, and returns how many connections it has opened to the previous one.
func (c *child) attack(addr string) (tried int) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, addr+"\n"); err != nil {
		c.t.Fatal(err)
	}
	if _, err := fmt.Sscan(c.line(), &tried); err != nil {
		c.t.Fatal(err)
	}
	return tried
}
