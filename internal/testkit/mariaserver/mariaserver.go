// Package mariaserver starts MariaDB servers for tests from the installed program, without a service or a container, each in a folder of
// its own. It leaves nothing behind, however the process ends that started them.
package mariaserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"godwit.dev/godwit/internal/testkit/reaper"
)

// patience is the longest wait for anything that normally takes a few seconds.
const patience = time.Minute

// ErrMissing reports that MariaDB is not installed.
var ErrMissing = errors.New("no mariadbd is installed: apt-get install mariadb-server-core")

// Server is a MariaDB that listens on a socket in its own folder. It accepts every user, and its database is shop.
type Server struct {
	dir    string
	keeper *os.File // the folder and the server exist as long as this is open
	log    *os.File

	mu  sync.Mutex
	cmd *exec.Cmd
}

// Start starts a server, which runs until it is closed or this process ends.
func Start() (*Server, error) {
	s, err := start()
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("start MariaDB: %w", err)
	}
	return s, nil
}

func program(name string) (string, error) {
	for _, where := range []string{name, filepath.Join("/usr/sbin", name)} { // Debian's folder, which is not in most users' PATH
		if path, err := exec.LookPath(where); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// end ends the server of the folder $1.
const end = `pid=$(cat "$1/pid" 2>/dev/null) && kill -KILL "$pid" 2>/dev/null`

func start() (*Server, error) {
	s := &Server{}
	if _, err := program("mariadbd"); err != nil {
		return s, err
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "gwmaria"); err != nil {
		return s, err
	}
	if s.keeper, err = reaper.Keep(s.dir, end); err != nil {
		return s, err
	}
	if s.log, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		return s, err
	}
	if err := os.Mkdir(filepath.Join(s.dir, "data"), 0o700); err != nil {
		return s, err
	}
	if err := s.run(); err != nil {
		return s, err
	}
	db, err := s.open("")
	if err != nil {
		return s, err
	}
	defer db.Close()
	_, err = db.ExecContext(context.Background(), "CREATE DATABASE shop")
	return s, err
}

// settings are those of the server, small and fast: it loses the latest commits when the machine stops, but not when it is killed.
func (s *Server) settings() []string {
	list := []string{
		"--no-defaults", "--datadir=" + filepath.Join(s.dir, "data"), "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=16M",
		"--innodb-flush-log-at-trx-commit=2", "--skip-log-bin", "--skip-networking", "--performance-schema=OFF", "--socket=" + s.Socket(),
		"--pid-file=" + filepath.Join(s.dir, "own.pid"), "--skip-grant-tables", // without tables of its own, which take seconds to make
	}
	if os.Getuid() == 0 {
		list = append(list, "--user=root")
	}
	return list
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	bin, err := program("mariadbd")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), bin, s.settings()...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.cmd = cmd
	s.mu.Unlock()
	if err := os.WriteFile(filepath.Join(s.dir, "pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return err
	}
	db, err := s.open("")
	if err != nil {
		return err
	}
	defer db.Close()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := db.PingContext(context.Background())
		if err == nil {
			return nil
		}
		if time.Since(begun) > patience {
			return s.explain(err)
		}
	}
}

func (s *Server) explain(err error) error {
	text, _ := os.ReadFile(s.log.Name())
	return fmt.Errorf("%w: %s", err, text)
}

// Socket returns the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "socket") }

// URL returns the address of its database for a source.
func (s *Server) URL() string { return "mysql://root@localhost/shop?socket=" + s.Socket() }

// Open connects to its database.
func (s *Server) Open() (*sql.DB, error) { return s.open("shop") }

func (s *Server) open(database string) (*sql.DB, error) {
	cfg := driver.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName, cfg.MultiStatements, cfg.Logger = "root", "unix", s.Socket(), database, true, &driver.NopLogger{}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
	_ = os.Remove(filepath.Join(s.dir, "pid"))
}

// Restart starts the server again on its files, after ending it if it runs.
func (s *Server) Restart() error {
	s.Kill()
	if err := s.run(); err != nil {
		return fmt.Errorf("start MariaDB again: %w", err)
	}
	return nil
}

// Close ends the server and removes its files.
func (s *Server) Close() {
	s.Kill()
	if s.log != nil {
		s.log.Close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
	if s.keeper != nil {
		s.keeper.Close()
	}
}
