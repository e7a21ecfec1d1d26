package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// warmUp sessions are opened and closed before the first reading, so that what the server allocates once for all
// sessions is not counted as theirs.
const warmUp = 500

// measure starts a server of its own for one transport and reads its memory before and after.
func measure(ctx context.Context, o *options, transport string) (*figure, error) {
	s, err := startServer(ctx, o.server)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	addr := s.addresses[map[string]string{"ws": "http", "grpc": "grpc"}[transport]]
	if addr == "" {
		return nil, fmt.Errorf("the server has no listener for it")
	}
	l, err := startLoad(ctx, transport, addr, warmUp)
	if err != nil {
		return nil, err
	}
	l.stop()
	before, err := s.settled(ctx, 5*time.Second, 0)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	l, err = startLoad(ctx, transport, addr, o.sessions)
	if err != nil {
		return nil, err
	}
	defer l.stop()
	opened := time.Now()
	after, err := s.settled(ctx, o.settle, before+o.limit*o.sessions/1024)
	if err != nil {
		return nil, err
	}
	return &figure{
		Transport: transport, Sessions: o.sessions, BeforeKB: before, AfterKB: after,
		BytesPerSession: (after - before) * 1024 / o.sessions,
		OpenedIn:        opened.Sub(began).Seconds(), SettledIn: time.Since(opened).Seconds(),
	}, nil
}

// server is a server process on a temporary data folder.
type server struct {
	cmd       *exec.Cmd
	dir       string
	addresses map[string]string
}

func startServer(ctx context.Context, binary string) (*server, error) {
	dir, err := os.MkdirTemp("", "godwit-idle")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	if binary == "" {
		binary = filepath.Join(dir, "godwit")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/godwit").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the server: %w\n%s", err, out)
		}
	}
	s.cmd = exec.CommandContext(ctx, binary, "serve", "--dev", "--data", filepath.Join(dir, "data"),
		"--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--log-level", "warn")
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	err = until(ctx, 30*time.Second, func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "data", "addresses.json"))
		return err == nil && json.Unmarshal(b, &s.addresses) == nil
	})
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	return s, nil
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}

// settled returns the least resident memory seen within patience, in KB, and returns early once it is at most goal.
func (s *server) settled(ctx context.Context, patience time.Duration, goal int) (least int, err error) {
	_ = until(ctx, patience, func() bool {
		var rss int
		if rss, err = residentKB(s.cmd.Process.Pid); err != nil {
			return true
		}
		if least == 0 || rss < least {
			least = rss
		}
		return least <= goal
	})
	return least, err
}

// residentKB reads VmRSS.
func residentKB(pid int) (int, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")))
		}
	}
	return 0, fmt.Errorf("process %d shows no VmRSS", pid)
}

func until(ctx context.Context, patience time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// load is the processes that hold sessions.
type load struct {
	children []*exec.Cmd
	inputs   []io.Closer
}

// perProcess keeps a child below the usual limit of 20,000 files.
const perProcess = 15000

func startLoad(ctx context.Context, transport, addr string, sessions int) (*load, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l := &load{}
	for sessions > 0 {
		n := min(sessions, perProcess)
		sessions -= n
		if err := l.add(exec.CommandContext(ctx, self, "-load", transport, "-addr", addr, "-sessions", strconv.Itoa(n))); err != nil {
			l.stop()
			return nil, err
		}
	}
	return l, nil
}

// add starts a child and waits until it holds its sessions. Closing its input ends it.
func (l *load) add(cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	l.children, l.inputs = append(l.children, cmd), append(l.inputs, in)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		return fmt.Errorf("the load generator did not get ready: %q %w", line, err)
	}
	return nil
}

func (l *load) stop() {
	for i, c := range l.children {
		l.inputs[i].Close()
		_ = c.Wait()
	}
	l.children = nil
}
