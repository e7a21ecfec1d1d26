package sources

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"
)

// asNATS is the variable whose value makes this test program a NATS on a port and a folder: a process that can be killed.
const asNATS = "GODWIT_TEST_AS_NATS"

func TestMain(m *testing.M) {
	if at, ok := os.LookupEnv(asNATS); ok {
		if err := serveNATS(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// serveNATS runs a NATS with JetStream until the test closes its input, or ends itself.
func serveNATS(at string) error {
	port, dir, _ := strings.Cut(at, " ")
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: number, JetStream: true, StoreDir: dir, NoSystemAccount: true, NoSigs: true, NoLog: true})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return fmt.Errorf("NATS did not start on %s", at)
	}
	fmt.Println(s.ClientURL())
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// natsProcess is a NATS in a process of its own.
type natsProcess struct {
	*testing.T
	URL  string
	dir  string
	port string
	cmd  *exec.Cmd
	end  io.Closer
}

func startNATS(t *testing.T) *natsProcess {
	t.Helper()
	n := &natsProcess{T: t, dir: filepath.Join(t.TempDir(), "nats"), port: "-1"}
	n.start()
	t.Cleanup(n.Stop)
	at, err := url.Parse(n.URL)
	if err != nil {
		t.Fatal(err)
	}
	n.port = at.Port()
	return n
}

func (n *natsProcess) start() {
	n.Helper()
	n.cmd = exec.Command(os.Args[0])
	n.cmd.Env, n.cmd.Stderr = append(os.Environ(), asNATS+"="+n.port+" "+n.dir), os.Stderr
	in, err := n.cmd.StdinPipe()
	if err != nil {
		n.Fatal(err)
	}
	out, err := n.cmd.StdoutPipe()
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		n.Fatal(err)
	}
	n.end = in
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		n.cmd = nil
		n.Fatalf("NATS said %q: %v", line, err)
	}
	n.URL = strings.TrimSpace(line)
}

// Stop ends NATS in order.
func (n *natsProcess) Stop() {
	if n.cmd != nil {
		_ = n.end.Close()
		_ = n.cmd.Wait()
		n.cmd = nil
	}
}

// Restart ends NATS in order and starts it again on its files.
func (n *natsProcess) Restart() {
	n.Helper()
	n.Stop()
	n.start()
}

// Crash kills NATS with kill -9 and starts it again on its files.
func (n *natsProcess) Crash() {
	n.Helper()
	_ = n.cmd.Process.Kill() // it may have ended, which the next start would show
	_ = n.cmd.Wait()
	_ = n.end.Close()
	n.start()
}
