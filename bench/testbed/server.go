// Package testbed sets up measurements: servers as separate processes with temporary data folders, worker processes that load them, and
// profiles of the servers.
package testbed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"godwit.dev/godwit/bench/confine"
	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/stubs"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/testkit/freeport"
)

const (
	startPatience = 60 * time.Second // long, because a starting server reads its store
	stopPatience  = 10 * time.Second // goodbyes to all sessions
	devKey        = "dev"
)

// App is the app of a development server.
const App = "demo"

// ServerOptions set how servers are started.
type ServerOptions struct {
	Command []string // the program
	Args    []string // more arguments of serve
	Env     []string
	TLS     bool
	Stubs   int    // settled notifications in the store at the start
	Dir     string // parent of the data folders; empty: the system's temporary folder
	Host    string // address of this machine at which the server listens, for clients on others; empty: loopback
	// Confined are the limits of each measured server, Godwit or a rival; nil: none.
	Confined *confine.Confines
	// Postgres holds the stores instead of the data folder; nil: the stores are in SQLite.
	Postgres *Postgres
}

// Server is a server under measurement.
type Server struct {
	loadgen.Target
	PID int // 0: not known

	options ServerOptions
	db      *Database // database with the stores; nil: they are files in the data folder
	owned   bool      // db goes with the server
	cmd     *exec.Cmd
	ended   chan struct{}
	dir     string
	stderr  *os.File
	release []func() // of its ports
}

// open reports whether other machines reach the server.
func (o *ServerOptions) open() bool {
	ip, err := netip.ParseAddr(o.Host)
	return o.Host != "" && (err != nil || !ip.IsLoopback())
}

// port returns an address that stays reserved for the server until it is stopped for good.
func (s *Server) port(ctx context.Context) (string, error) {
	if s.options.open() {
		return net.JoinHostPort(s.options.Host, "0"), nil
	}
	addr, release, err := freeport.Loopback(ctx)
	if err == nil {
		s.release = append(s.release, release)
	}
	return addr, err
}

// StartServer starts a server with a data folder or a database of its own, and waits until it is ready.
func StartServer(ctx context.Context, o ServerOptions) (*Server, error) {
	if o.Postgres == nil {
		return startServer(ctx, o, nil)
	}
	db, err := o.Postgres.NewDatabase(ctx)
	if err != nil {
		return nil, err
	}
	s, err := startServer(ctx, o, db)
	if err != nil {
		db.Drop()
		return nil, err
	}
	s.owned = true
	return s, nil
}

func startServer(ctx context.Context, o ServerOptions, db *Database) (*Server, error) {
	dir, err := os.MkdirTemp(o.Dir, "godwit-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a data folder: %w", err)
	}
	s := &Server{dir: dir, options: o, db: db, Target: loadgen.Target{TLS: o.TLS, Key: devKey}}
	err = s.fill(ctx)
	if err == nil {
		err = s.first(ctx)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// first starts the server for the first time, in a way that allows restarts.
func (s *Server) first(ctx context.Context) error {
	http, err := s.port(ctx)
	if err != nil {
		return err
	}
	grpc, err := s.port(ctx)
	if err != nil {
		return err
	}
	return s.start(ctx, http, grpc)
}

// fill creates the store that the server starts with, if Stubs is set.
func (s *Server) fill(ctx context.Context) error {
	if s.options.Stubs == 0 {
		return nil
	}
	data := filepath.Join(s.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	return stubs.Fill(ctx, filepath.Join(data, store.MailboxFile), App, s.options.Stubs)
}

// Restart kills the server as a crash would, calls forget to remove parts of its data folder, and starts the server again at the same
// addresses.
func (s *Server) Restart(ctx context.Context, forget func(data string) error) error {
	if s.cmd == nil {
		return errors.New("a server that was running already cannot be restarted")
	}
	_ = s.cmd.Process.Kill() // fails if it has ended
	<-s.ended
	s.stderr.Close()
	data := filepath.Join(s.dir, "data")
	if err := os.Remove(filepath.Join(data, addressesFile)); err != nil {
		return fmt.Errorf("restart the server: %w", err)
	}
	if forget != nil {
		if err := forget(data); err != nil {
			return fmt.Errorf("restart the server: %w", err)
		}
	}
	return s.start(ctx, s.HTTP, s.GRPC)
}

const addressesFile = "addresses.json"

func (s *Server) start(ctx context.Context, http, grpc string) error {
	o, data := s.options, filepath.Join(s.dir, "data")
	s.ended = make(chan struct{})
	args := append(append([]string{}, o.Command[1:]...), "serve", "--dev", "--data", data,
		"--http-addr", http, "--grpc-addr", grpc, "--log-level", "warn")
	if o.open() {
		args = append(args, "--dev-any-address")
	}
	if o.TLS {
		cert, key, err := makeCertificate(s.dir)
		if err != nil {
			return err
		}
		args = append(args, "--tls-cert", cert, "--tls-key", key)
	}
	var err error
	if s.stderr, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		return err
	}
	s.cmd = exec.CommandContext(ctx, o.Command[0], append(args, o.Args...)...)
	s.cmd.Stderr = s.stderr
	s.cmd.Env = append(o.Confined.Environ(), "GODWIT_POSTGRES=") // the environment must not change the measured settings
	if s.db != nil {
		s.cmd.Env = append(s.cmd.Env, "GODWIT_POSTGRES="+s.db.URL)
	}
	s.cmd.Env = append(s.cmd.Env, o.Env...)
	free, err := o.Confined.Start(s.cmd)
	if err != nil {
		s.cmd = nil
		return fmt.Errorf("start a server: %w", err)
	}
	s.PID = s.cmd.Process.Pid
	cmd, ended := s.cmd, s.ended
	go func() { // ends with the process, which Stop waits for
		defer close(ended)
		_ = cmd.Wait() // the server's log contains the reason
		free()
	}()
	return s.ready(ctx, filepath.Join(data, addressesFile))
}

func (s *Server) ready(ctx context.Context, addresses string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("the server was not ready within %s", startPatience))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(addresses); err == nil && json.Unmarshal(b, &s.Target) == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.ended:
			return fmt.Errorf("the server ended: %s", s.Log())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Alive returns an error if the server has ended.
func (s *Server) Alive() error {
	if s.ended == nil {
		return nil // somebody else's
	}
	select {
	case <-s.ended:
		return fmt.Errorf("the server ended: %s", s.Log())
	default:
		return nil
	}
}

// Log returns the end of the server's log.
func (s *Server) Log() string {
	const most = 2000
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-most):]))
}

// Stop stops the server and removes its data.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
		t := time.NewTimer(stopPatience)
		defer t.Stop()
		select {
		case <-s.ended:
		case <-t.C:
			_ = s.cmd.Process.Kill() // ended meanwhile, or now
			<-s.ended
		}
	}
	if s.stderr != nil {
		s.stderr.Close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // a folder that remains is in the temporary folder
	}
	if s.owned {
		s.db.Drop()
	}
	for _, release := range s.release {
		release()
	}
}

// CertFile is the file with the certificate of a server with TLS.
func (s *Server) CertFile() string { return filepath.Join(s.dir, "cert.pem") }

// Database returns the database with the server's stores; nil: the stores are in files.
func (s *Server) Database() *Database { return s.db }

// Metric returns the value of one of the server's metrics. name includes the labels.
func (s *Server) Metric(ctx context.Context, name string) (float64, error) {
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+s.HTTP+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	c := client()
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read the server's metrics: %w", err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the server has no metric %s (HTTP status %s)", name, resp.Status)
}

// Call sends a request to the server's API and decodes the answer into into, unless that is nil. A body of type []byte is sent as NDJSON,
// any other as JSON.
func (s *Server) Call(ctx context.Context, method, path string, body, into any) error {
	scheme, kind := "http", "application/x-ndjson"
	if s.TLS {
		scheme = "https"
	}
	b, ok := body.([]byte)
	if !ok {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return err
		}
		kind = "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, method, scheme+"://"+s.HTTP+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", kind)
	resp, err := calls.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %.300s", resp.Status, answer)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// calls is the client for all these requests, so that connections are reused.
var calls = client()

// Existing returns a Server for one that is already running. If pid is 0, its CPU time and memory are not measured.
func Existing(ctx context.Context, t loadgen.Target, pid int) (*Server, error) {
	scheme := "http"
	if t.TLS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+t.HTTP+"/readyz", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client().Do(req)
	if err != nil {
		return nil, fmt.Errorf("look whether the server is ready: %w", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New("the server is not ready: HTTP status " + resp.Status)
	}
	return &Server{Target: t, PID: pid}, nil
}
