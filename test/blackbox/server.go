package blackbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/freeport"
	"godwit.dev/godwit/internal/testkit/logbuffer"
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
	log  *logbuffer.Buffer
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

// Program runs another server than the one built from here, such as an earlier release.
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

// New prepares a server without starting it. If the test is built with the race detector, so is the server; not under -short, since that
// build takes long.
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{t: t, HTTP: Free(t), GRPC: Free(t), log: &logbuffer.Buffer{}}
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

// Free returns a free loopback address that stays reserved until the test ends, also while the server that uses it is down.
func Free(t testing.TB) string {
	t.Helper()
	addr, release, err := freeport.Loopback(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return addr
}

// At returns a server that this package has not started, such as one behind a balancer. Only its API can be used.
func At(t testing.TB, httpAddr, grpcAddr string) *Server {
	t.Helper()
	return &Server{t: t, HTTP: httpAddr, GRPC: grpcAddr, log: &logbuffer.Buffer{}}
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

// Launch starts the process and waits until it is ready. Restarts use the same ports.
func (s *Server) Launch() error {
	// The addresses that an earlier server wrote are outdated.
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

// Addresses are a server's listening addresses; "" for a listener that is off.
type Addresses struct{ HTTP, GRPC, MQTT, NATS, QUIC, Gateway string }

// Addresses reads the server's listening addresses.
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
	if s.HTTP != a.HTTP || s.GRPC != a.GRPC { // written only the first time, since clients may be reading them
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
	_ = s.cmd.Process.Kill() // an error means that it has ended already
	<-s.done
}

// Stop tells the process to end and returns its exit code.
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

// Log returns everything that the server has printed so far, over all its starts.
func (s *Server) Log() string { return s.log.String() }

// URL returns the address of an HTTP resource: URL("/v1/notifications").
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

// Manage is Run for a command that manages apps: it asks the server, or if that does not run works on its data folder.
func (s *Server) Manage(args ...string) (string, error) {
	if s.cmd == nil || s.cmd.Process == nil || s.Exited() {
		args = append(args, "--local")
	}
	return s.Run(args...)
}

// OperatorKey returns the name of the file with the operator key that servers share.
func OperatorKey(t testing.TB, servers ...*Server) (file string) {
	t.Helper()
	for _, s := range servers {
		name := filepath.Join(s.Dir, "operator.key")
		if _, err := os.Stat(name); err != nil {
			continue
		}
		if file != "" {
			t.Errorf("%s and %s both have an operator key", file, name)
		}
		file = name
	}
	if file == "" {
		t.Fatal("no server has an operator key")
	}
	return file
}
