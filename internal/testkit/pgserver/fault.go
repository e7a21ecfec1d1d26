package pgserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kill ends all processes of the server at once, as kill -9 does.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	s.freeze() // so that none is started while the others are killed
	for _, pid := range s.held {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	s.held = nil
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Restart starts the server on its existing files, after ending it if it runs, and waits until it accepts connections.
func (s *Server) Restart() error {
	s.Kill()
	if err := s.start(); err != nil {
		return fmt.Errorf("start PostgreSQL again: %w", err)
	}
	return nil
}

// Crash starts another server on a copy of the current files, as if this one had been killed. This one continues.
func (s *Server) Crash() (*Server, error) {
	c, err := s.copied(nil)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL on what a crash leaves: %w", err)
	}
	return c, nil
}

// Replica starts another server with all that this one has committed so far, like a replica that takes over. Both are primaries, and their
// histories differ from here on.
func (s *Server) Replica() (*Server, error) {
	c, err := s.copied(func(c *Server) error {
		f, err := os.OpenFile(filepath.Join(c.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteString("restore_command = 'false'\nhot_standby = 'off'\n"); err != nil {
			return err
		}
		signal := filepath.Join(c.data(), "recovery.signal")
		if err := os.WriteFile(signal, nil, 0o600); err != nil {
			return err
		}
		return own(signal, c.as)
	})
	if err != nil {
		return nil, fmt.Errorf("start a PostgreSQL that takes over: %w", err)
	}
	return c, nil
}

// Standby starts a replica that follows this server, by the name by which synchronous_standby_names may have it, until Promote.
func (s *Server) Standby(name string) (*Server, error) {
	c, err := s.copied(func(c *Server) error {
		f, err := os.OpenFile(filepath.Join(c.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := fmt.Fprintf(f, "primary_conninfo = 'host=%s user=postgres application_name=%s'\n", s.dir, name); err != nil {
			return err
		}
		signal := filepath.Join(c.data(), "standby.signal")
		if err := os.WriteFile(signal, nil, 0o600); err != nil {
			return err
		}
		return own(signal, c.as)
	})
	if err != nil {
		return nil, fmt.Errorf("start a PostgreSQL that follows: %w", err)
	}
	return c, nil
}

// Promote makes a replica take over, as pg_ctl does, and returns once it takes writes.
func (s *Server) Promote() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "pg_ctl"), "promote", "-w", "-D", s.data())
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("promote PostgreSQL: %w: %s", err, out)
	}
	return nil
}

// copied starts another server on a copy of the files, after prepare.
func (s *Server) copied(prepare func(*Server) error) (*Server, error) {
	s.Stop()
	// Only this code reads it, and it is soon removed, so it need not be synced to disk.
	c, err := newServer(s.bin, Options{Settings: s.opts.Settings}, s.data())
	s.Continue()
	if err != nil {
		return nil, err
	}
	// With this file it would conclude that its server is running.
	err = os.Remove(filepath.Join(c.data(), pidFile))
	if err == nil && prepare != nil {
		err = prepare(c)
	}
	if err == nil {
		err = c.start()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Stop suspends all processes of the server (SIGSTOP): connections stay and nothing answers.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil && len(s.held) == 0 {
		s.freeze()
	}
}

// Continue resumes a stopped server.
func (s *Server) Continue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume()
}

// freeze suspends the process that starts the others first. After that the list of processes is final.
func (s *Server) freeze() {
	s.held = []int{s.cmd.Process.Pid}
	stand(s.held[0])
	s.held = append(s.held, Children(s.held[0])...)
	for _, pid := range s.held[1:] {
		stand(pid)
	}
}

// stand suspends a process and waits until it has stopped or ended: a signal takes a moment, in which the process may start another one.
func stand(pid int) {
	if unix.Kill(pid, unix.SIGSTOP) != nil {
		return
	}
	for s := state(pid); s != 'T' && s != 'Z' && s != 0; s = state(pid) {
		time.Sleep(time.Millisecond)
	}
}

// state returns a process's state from /proc: T is stopped, Z has ended; 0: it does not exist.
func state(pid int) byte {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if i := bytes.LastIndexByte(b, ')') + 2; err == nil && i < len(b) {
		return b[i]
	}
	return 0
}

func (s *Server) resume() {
	for i := len(s.held) - 1; i >= 0; i-- {
		_ = unix.Kill(s.held[i], unix.SIGCONT)
	}
	s.held = nil
}

// Children returns the child processes of a process. The lines of /proc/PID/stat are "pid (name) state parent ...".
func Children(of int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(of) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
