// Package pgserver starts PostgreSQL servers for tests and benchmarks from the installed programs, without a service or a container, each
// in a folder of its own. It leaves nothing behind, however the process ends that started them.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"godwit.dev/godwit/internal/testkit/reaper"
)

// patience is the longest wait for anything that normally takes less than a second.
const patience = time.Minute

// pidFile is the file in which a running server stores its process id.
const pidFile = "postmaster.pid"

// Options of a server. The zero value is the fastest: it loses everything when the machine stops.
type Options struct {
	Fsync    bool              // commits are on disk before the server confirms them
	Settings map[string]string // of postgresql.conf
	Dir      string            // parent of the server's folder, with a short path; empty: the system's folder for temporary files
}

// Server is a PostgreSQL server. It listens on a socket in its own folder, and accepts every connection there.
type Server struct {
	bin, dir string
	opts     Options
	as       *syscall.Credential
	keeper   *os.File // the folder and the server exist as long as this is open

	mu   sync.Mutex
	cmd  *exec.Cmd
	shm  int // id of the System V shared memory that marks the files as in use; 0: none
	held []int
}

// Start starts a server, which runs until it is closed or this process ends.
func Start(o Options) (*Server, error) {
	bin, err := Programs()
	if err != nil {
		return nil, err
	}
	s, err := newServer(bin, o, "")
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := s.start(); err != nil {
		s.Close()
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return s, nil
}

// newServer copies a cluster into a folder of its own; empty from: an empty cluster.
func newServer(bin string, o Options, from string) (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	as, err := runAs()
	if err != nil {
		return nil, err
	}
	if from == "" {
		if from, err = cluster(ctx, bin, as); err != nil {
			return nil, err
		}
	}
	s := &Server{bin: bin, opts: o, as: as}
	if o.Dir == "" {
		o.Dir = shortTemp()
	}
	if s.dir, err = os.MkdirTemp(o.Dir, "gwpg"); err != nil {
		return nil, err
	}
	if s.keeper, err = reaper.Keep(s.dir, end); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	if err := own(s.dir, as); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, s.data()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy database cluster: %w: %s", err, out)
	}
	return s, os.WriteFile(filepath.Join(s.data(), "postgresql.auto.conf"), []byte(s.config()), 0o644)
}

// shortTemp returns a folder for temporary files whose path is short enough for a socket's, at most 107 bytes.
func shortTemp() string {
	if dir := os.TempDir(); len(dir) < 60 {
		return dir
	}
	return "/tmp"
}

// end ends the server of the folder $1, and waits up to ten seconds for that.
const end = `pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" && kill -CONT "$pid"
n=0; while [ -e "$1/data/postmaster.pid" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done`

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) config() string {
	b := &strings.Builder{}
	set := func(key, value string) {
		fmt.Fprintf(b, "%s = '%s'\n", key, strings.ReplaceAll(value, "'", "''"))
	}
	set("listen_addresses", "")
	set("unix_socket_directories", s.dir)
	set("max_connections", "1000")
	set("shared_buffers", "64MB")
	set("jit", "off") // JIT would compile plans that run for a millisecond
	// In the server's folder, so that no shared memory is left elsewhere.
	set("dynamic_shared_memory_type", "mmap")
	if !s.opts.Fsync {
		set("fsync", "off")
		set("full_page_writes", "off")
	}
	for key, value := range s.opts.Settings {
		set(key, value)
	}
	return b.String()
}

// Tables returns the folder with the files of tables and indexes. After a CHECKPOINT these have the latest changes.
func (s *Server) Tables() string { return filepath.Join(s.data(), "base") }

// Socket returns the path of the socket on which the server accepts connections.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// URL returns the address of a database of the server.
func (s *Server) URL() string { return s.Of("postgres") }

// Of returns the URL of a database of the server.
func (s *Server) Of(database string) string { return address(database, s.dir, "postgres") }

// As returns the URL of a database of the server for another user.
func (s *Server) As(user, database string) string { return address(database, s.dir, user) }

// Either returns a URL with two servers: connections take the one that accepts writes.
func (s *Server) Either(other *Server) string {
	return address("postgres", s.dir+","+other.dir, "postgres") + "&target_session_attrs=read-write"
}

func address(database, hosts, user string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {hosts}, "user": {user}, "sslmode": {"disable"}}.Encode()
}

// start starts the server and waits until it accepts connections.
func (s *Server) start() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("it did not take connections"))
	defer cancel()
	for {
		err := s.try(ctx)
		// The remaining processes of a killed server may take a moment to notice that it has ended.
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "still in use") {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *Server) try(ctx context.Context) error {
	out, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, "postgres"), "-D", s.data())
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	for !s.accepts(ctx) {
		var st syscall.WaitStatus
		if pid, err := syscall.Wait4(cmd.Process.Pid, &st, syscall.WNOHANG, nil); err == nil && pid != 0 || ctx.Err() != nil {
			_ = cmd.Process.Kill()
			log, _ := os.ReadFile(out.Name())
			return errors.Join(context.Cause(ctx), fmt.Errorf("PostgreSQL ended: %s", log))
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.shm = cmd, segment(s.data())
	return nil
}

func (s *Server) accepts(ctx context.Context) bool {
	c, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return false
	}
	c.Close(ctx)
	return true
}

// segment reads the id of the server's shared memory from postmaster.pid: line 7 has its key and its id.
func segment(data string) int {
	b, _ := os.ReadFile(filepath.Join(data, pidFile))
	lines := strings.Split(string(b), "\n")
	if len(lines) < 7 {
		return 0
	}
	fields := strings.Fields(lines[6])
	if len(fields) != 2 {
		return 0
	}
	id, _ := strconv.Atoi(fields[1])
	return id
}

// Running reports whether the server was started and not killed since.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil
}

// Close ends the server and removes its files.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume()
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(unix.SIGQUIT)
		_ = s.cmd.Wait()
	}
	if s.cmd == nil && s.shm != 0 { // killed, and not started again
		_, _ = unix.SysvShmCtl(s.shm, unix.IPC_RMID, nil)
	}
	s.cmd = nil
	_ = os.RemoveAll(s.dir)
	s.keeper.Close()
}
