// Package mariaserver starts MariaDB servers for tests from the installed program, without a service or a container, each in a folder of
// its own. It leaves nothing behind, however the process ends that started them.
package mariaserver

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"godwit.dev/godwit/internal/testkit/freeport"
	"godwit.dev/godwit/internal/testkit/process"
)

// patience is the longest wait for anything that normally takes a few seconds.
const patience = time.Minute

// ErrMissing reports that MariaDB is not installed.
var ErrMissing = errors.New("no mariadbd is installed: apt-get install mariadb-server-core")

// User may read, change and delete rows of the databases whose names begin with shop. He connects over TCP, with Password and TLS.
const (
	User     = "godwit"
	Password = "opensesame"
)

// Server is a MariaDB with the database shop. Its owner root connects over a socket in the server's folder.
type Server struct {
	*process.Process
	opts    Options
	port    string
	release func()
}

// Options of a server.
type Options struct {
	CertFile, KeyFile string // of the server
}

// Start starts a server, which runs until it is closed or this process ends.
func Start(o Options) (*Server, error) {
	s := &Server{opts: o, release: func() {}}
	if err := s.start(); err != nil {
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

func (s *Server) start() (err error) {
	bin, err := program("mariadbd")
	if err != nil {
		return err
	}
	if s.Process, err = process.New("gwmaria"); err != nil {
		return err
	}
	addr, release, err := freeport.Loopback(context.Background())
	if err != nil {
		return err
	}
	s.release = release
	if _, s.port, err = net.SplitHostPort(addr); err != nil {
		return err
	}
	if err := s.fill(bin); err != nil {
		return err
	}
	if err := s.run(); err != nil {
		return err
	}
	return s.Do("CREATE DATABASE shop; CREATE USER " + User + " IDENTIFIED BY '" + Password + "' REQUIRE SSL; GRANT SELECT, UPDATE, DELETE ON `shop%`.* TO " + User)
}

// fill makes the server's own tables, with users and rights.
func (s *Server) fill(bin string) error {
	if err := os.Mkdir(s.data(), 0o700); err != nil {
		return err
	}
	text := []byte("CREATE DATABASE mysql;\nUSE mysql;\n")
	for _, what := range []string{"tables", "tables_data"} {
		files, _ := filepath.Glob("/usr/share/m*/m*_system_" + what + ".sql") // of mysql or mariadb
		if len(files) == 0 {
			return ErrMissing
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			return err
		}
		text = append(text, b...)
	}
	cmd := exec.CommandContext(context.Background(), bin, append(s.settings(), "--bootstrap")...)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fill: %w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.Dir(), "data") }

// settings are those of the server, small and fast: it loses the latest commits when the machine stops, but not when it is killed.
func (s *Server) settings() []string {
	list := []string{
		"--no-defaults", "--datadir=" + s.data(), "--tmpdir=" + s.Dir(), "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=16M",
		"--innodb-flush-log-at-trx-commit=2", "--skip-log-bin", "--performance-schema=OFF", "--skip-name-resolve",
		"--socket=" + s.socket(), "--bind-address=127.0.0.1", "--port=" + s.port, "--pid-file=" + filepath.Join(s.Dir(), "own.pid"),
		"--ssl-cert=" + s.opts.CertFile, "--ssl-key=" + s.opts.KeyFile,
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
	if err := s.Process.Start(bin, s.settings()...); err != nil {
		return err
	}
	db, err := s.Open("")
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
			return fmt.Errorf("%w: %s", err, s.Said())
		}
	}
}

func (s *Server) socket() string { return filepath.Join(s.Dir(), "socket") }

// URL returns the address of its database for a source, which needs Password.
func (s *Server) URL() string { return s.Of("shop") }

// Of returns the address of one of its databases.
func (s *Server) Of(database string) string {
	return "mysql://" + User + "@localhost:" + s.port + "/" + database
}

// Do executes statements as its owner.
func (s *Server) Do(text string) error {
	db, err := s.Open("")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(context.Background(), text)
	return err
}

// Open connects to one of its databases as its owner.
func (s *Server) Open(database string) (*sql.DB, error) {
	cfg := driver.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName, cfg.MultiStatements, cfg.Logger = "root", "unix", s.socket(), database, true, &driver.NopLogger{}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
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
	s.Process.Close()
	s.release()
}
