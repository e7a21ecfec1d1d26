// Package redisserver starts Redis servers for tests and benchmarks from the installed program, without a service or a container, each in a
// folder of its own, alone or as a cluster. It leaves nothing behind, however the process ends that started them.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/testkit/freeport"
	"godwit.dev/godwit/internal/testkit/process"
)

// patience is the longest wait for anything that normally takes less than a second.
const patience = time.Minute

// ErrMissing reports that redis-server is not installed.
var ErrMissing = errors.New("no redis-server is installed: apt-get install redis-server")

// Program returns the path of redis-server, or ErrMissing.
var Program = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", ErrMissing
	}
	return path, nil
})

// Options of a server.
type Options struct {
	Settings []string // settings of redis.conf in their command-line form: "--notify-keyspace-events", "Kt"
	Memory   bool     // store nothing on disk: the server is empty after a Restart
}

// Server is a Redis server on loopback.
type Server struct {
	*process.Process
	addr, bus string
	args      []string
	release   []func()
}

// Start starts a server, which runs until it is closed or this process ends. Acknowledged writes survive Kill, unless Memory is set.
func Start(o Options) (*Server, error) {
	s, err := start(o, false)
	if err != nil {
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	return s, nil
}

func start(o Options, cluster bool) (s *Server, err error) {
	if _, err := Program(); err != nil {
		return nil, err
	}
	s = &Server{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.addr, err = s.port(); err != nil {
		return s, err
	}
	if s.Process, err = process.New("gwredis"); err != nil {
		return s, err
	}
	set := func(args ...string) { s.args = append(s.args, args...) }
	set("--bind", "127.0.0.1", "--port", portOf(s.addr), "--dir", s.Dir(), "--save", "", "--daemonize", "no")
	if !o.Memory {
		// The system already has what the server wrote before an answer, so a kill does not lose it.
		set("--appendonly", "yes", "--appendfsync", "no")
	}
	if cluster {
		if s.bus, err = s.port(); err != nil {
			return s, err
		}
		set("--cluster-enabled", "yes", "--cluster-port", portOf(s.bus), "--cluster-node-timeout", strconv.FormatInt(formingTimeout.Milliseconds(), 10), "--repl-diskless-sync-delay", "0")
	}
	set(o.Settings...)
	return s, s.run()
}

func (s *Server) port() (string, error) {
	addr, release, err := freeport.Loopback(context.Background())
	if err == nil {
		s.release = append(s.release, release)
	}
	return addr, err
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	bin, err := Program()
	if err != nil {
		return err
	}
	if err := s.Process.Start(bin, s.args...); err != nil {
		return err
	}
	if err := s.Await("PING", "PONG"); err != nil {
		return fmt.Errorf("%w: %s", err, s.Said())
	}
	return nil
}

// Await repeats a command until its answer contains a word, for a minute.
func (s *Server) Await(command, word string) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("%s was not answered with %s", command, word))
	defer cancel()
	last := "never"
	for {
		answer, err := s.ask(ctx, command)
		if err == nil && strings.Contains(answer, word) {
			return nil
		}
		if ctx.Err() != nil { // which is why the last try failed
			return fmt.Errorf("%w; the answer before: %s", context.Cause(ctx), last)
		}
		if last = answer; err != nil {
			last = err.Error()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Addr returns the server's address, as host:port.
func (s *Server) Addr() string { return s.addr }

// URL returns the server's address as a URL for clients.
func (s *Server) URL() string { return "redis://" + s.addr }

// Restart starts the server again, at the same address, after ending it if it runs.
func (s *Server) Restart() error {
	s.Kill()
	if err := s.run(); err != nil {
		return fmt.Errorf("start Redis again: %w", err)
	}
	return nil
}

// Close ends the server and removes its files.
func (s *Server) Close() {
	s.Process.Close()
	for _, release := range s.release {
		release()
	}
	s.release = nil
}
