package blackbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/freeport"
)

// Server is a server process that a test started. It is killed when the test ends.
type Server struct {
	Dir  string // its data folder
	HTTP string // host:port
	GRPC string

	t    testing.TB
	bin  string
	args []string
	env  []string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	log  *logBuffer
}

// Option changes how a server is started.
type Option func(*Server)

// Args adds flags of `godwit serve`.
func Args(args ...string) Option { return func(s *Server) { s.args = append(s.args, args...) } }

// Env adds environment variables, KEY=VALUE.
func Env(env ...string) Option { return func(s *Server) { s.env = append(s.env, env...) } }

// In sets the data folder; without it the test gets a temporary one.
func In(dir string) Option { return func(s *Server) { s.Dir = dir } }

// Plain runs the server without the race detector, as users do: for measurements.
func Plain() Option { return func(s *Server) { s.bin = Binary(s.t, false) } }

// Program runs another server than the one built from here: a release of before.
func Program(path string) Option { return func(s *Server) { s.bin = path } }

// Dev is `--dev`: app demo, key dev, clients without tokens.
func Dev() Option { return Args("--dev") }

// Start starts a server on free ports of loopback and waits until it is ready.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := New(t, opts...)
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	return s
}

// New prepares a server without starting it. Where the test itself has the race detector, so has the server; not under -short, since
// it takes long to build.
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{t: t, HTTP: Free(t), GRPC: Free(t), log: &logBuffer{}}
	for _, o := range opts {
		o(s)
	}
	if s.bin == "" {
		s.bin = Binary(t, Raced() && !testing.Short())
	}
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	t.Cleanup(s.cleanup)
	return s
}

// Free is an address on loopback that nobody listens at, nor will until the test ends, also while the server that has it is down.
func Free(t testing.TB) string {
	t.Helper()
	addr, release, err := freeport.Loopback(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return addr
}

// At is a server that runs without this package's doing: behind a balancer, say. It is only talked to.
func At(t testing.TB, httpAddr, grpcAddr string) *Server {
	t.Helper()
	return &Server{t: t, HTTP: httpAddr, GRPC: grpcAddr, log: &logBuffer{}}
}

func (s *Server) cleanup() {
	s.Kill()
	text := s.log.String()
	if strings.Contains(text, "WARNING: DATA RACE") {
		s.t.Error("the server has a data race")
	}
	if strings.Contains(text, "panic:") {
		s.t.Error("the server panicked")
	}
	if s.t.Failed() {
		const most = 8 << 10
		if len(text) > most {
			text = "…" + text[len(text)-most:]
		}
		s.t.Logf("log of the server:\n%s", text)
	}
}

// Launch starts the process and waits until it is ready. After the first time it takes the same ports again.
func (s *Server) Launch() error {
	// What an earlier server wrote there says nothing about this one.
	if err := os.Remove(filepath.Join(s.Dir, "addresses.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := s.Spawn(); err != nil {
		return err
	}
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	return Poll(ctx, Patience, func() error {
		if s.Exited() {
			giveUp()
			return fmt.Errorf("the server exited with code %d", s.cmd.ProcessState.ExitCode())
		}
		return s.ready()
	})
}

// Addresses are where a server listens. A listener that is off has none.
type Addresses struct{ HTTP, GRPC, NATS, Gateway string }

// Addresses reads where the server listens.
func (s *Server) Addresses() (a Addresses, err error) {
	b, err := os.ReadFile(filepath.Join(s.Dir, "addresses.json"))
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	return a, err
}

// Spawn starts the process and does not wait for it.
func (s *Server) Spawn() error {
	args := append([]string{"serve", "--data", s.Dir, "--http-addr", s.HTTP, "--grpc-addr", s.GRPC, "--log-format", "json"}, s.args...)
	s.cmd = exec.Command(s.bin, args...)
	s.cmd.Env = append(os.Environ(), s.env...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait() // the exit code is read from ProcessState
		close(done)
	}(s.cmd, s.done)
	return nil
}

func (s *Server) ready() error {
	a, err := s.Addresses()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.HTTP+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", resp.Status)
	}
	if s.HTTP != a.HTTP || s.GRPC != a.GRPC { // only the first time: clients may be reading them
		s.HTTP, s.GRPC = a.HTTP, a.GRPC
	}
	return nil
}

// Exited reports whether the process has ended.
func (s *Server) Exited() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// PID is the process's id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill ends the process as a power cut would, and waits until it is gone.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill() // an error means that it is gone already
	<-s.done
}

// Stop asks the process to end and returns its exit code.
func (s *Server) Stop() int {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatalf("ask the server to stop: %v", err)
	}
	return s.Wait()
}

// Wait waits until the process has ended by itself and returns its exit code.
func (s *Server) Wait() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(Patience):
		s.t.Fatalf("the server did not end within %s", Patience)
	}
	return s.cmd.ProcessState.ExitCode()
}

// Log is what the server has printed so far, over all its starts.
func (s *Server) Log() string { return s.log.String() }

// URL makes the address of an HTTP resource: URL("/v1/notifications").
func (s *Server) URL(path string) string { return "http://" + s.HTTP + path }

// Run runs another command of the same binary and returns what it printed.
func (s *Server) Run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.bin, args...)
	cmd.Env = append(os.Environ(), s.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// logBuffer keeps what a process printed.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
