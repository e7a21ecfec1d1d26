package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/app/datadir"
)

// serving is a server process whose output goes to a pipe of the test.
type serving struct {
	*exec.Cmd
	dir string
}

// serveTo starts a server that writes to out.
func serveTo(t *testing.T, out *os.File, args ...string) *serving {
	t.Helper()
	s := &serving{dir: t.TempDir()}
	s.Cmd = exec.Command("godwit", append([]string{"serve", "--dev", "--data", s.dir, "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0"}, args...)...)
	s.Stdout, s.Stderr = out, out
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Process.Kill() })
	return s
}

// until waits until the server's address file satisfies ok.
func (s *serving) until(t *testing.T, what string, ok func(datadir.Addresses) bool) {
	t.Helper()
	giveUp := time.NewTimer(patience)
	defer giveUp.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if a, err := datadir.ReadAddresses(s.dir); err == nil && ok(a) {
			return
		}
		if err := s.Process.Signal(syscall.Signal(0)); err != nil {
			t.Fatalf("%s: the server is gone: %v", what, err)
		}
		select {
		case <-again.C:
		case <-giveUp.C:
			t.Fatalf("%s: still not so after %s", what, patience)
		}
	}
}

// stop sends SIGTERM and expects a clean end.
func (s *serving) stop(t *testing.T) {
	t.Helper()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("the stopped server ends with %v, want exit code 0", err)
	}
}

func listens(a datadir.Addresses) bool { return a.HTTP != "" }

func TestServerOutlivesTheReaderOfItsLog(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := serveTo(t, w)
	_ = w.Close()
	s.until(t, "the server listens", listens)
	_ = r.Close()
	if err := s.Process.Signal(syscall.SIGUSR1); err != nil { // a drain logs
		t.Fatal(err)
	}
	s.until(t, "the server has drained", func(a datadir.Addresses) bool { return a.Drain == datadir.Drained })
	s.stop(t) // which logs too
}

func TestServerWithoutAReaderReportsAFailedStart(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	s := serveTo(t, w, "--http-addr", "256.0.0.1:1")
	_ = w.Close()
	var exit *exec.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the server that cannot start ends with %v, want exit code 1", err)
	}
}

func TestStandingReaderOfTheLogBlocksNoServer(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fill(t, w)
	s := serveTo(t, w, "--log-level", "debug")
	_ = w.Close()
	s.until(t, "the server listens", listens)
	s.stop(t)
}

// fill writes to a pipe until it is full.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	if err := syscall.SetNonblock(int(w.Fd()), false); err != nil {
		t.Fatal(err)
	}
}

func TestListenEndsQuietlyWithItsReader(t *testing.T) {
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	s := serveTo(t, nowhere)
	s.until(t, "the server listens", listens)
	a, err := datadir.ReadAddresses(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GODWIT_URL=http://"+a.HTTP, "GODWIT_API_KEY=dev")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	listen := exec.Command("godwit", "listen", "driver-1", "--json")
	said, err := os.Create(t.TempDir() + "/stderr")
	if err != nil {
		t.Fatal(err)
	}
	listen.Env, listen.Stdout, listen.Stderr = env, w, said
	if err := listen.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	publish := exec.Command("godwit", "publish", "driver-1", "--title", "Hi")
	publish.Env = env
	if out, err := publish.CombinedOutput(); err != nil {
		t.Fatalf("publish: %v: %s", err, out)
	}
	if err := listen.Wait(); err == nil {
		t.Error("listen ends with 0 although nobody reads what it printed")
	}
	if text, _ := os.ReadFile(said.Name()); len(text) > 0 {
		t.Errorf("listen says %q", text)
	}
	s.stop(t)
}
