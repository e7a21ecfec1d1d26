// Package process keeps the process of a server that is started for tests, in a folder of its own. It leaves nothing behind, however the
// process ends that started it.
package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"godwit.dev/godwit/internal/testkit/reaper"
)

// Process is a server's process, which may be started again after it was killed.
type Process struct {
	dir    string
	keeper *os.File // the folder and the process exist as long as this is open

	mu  sync.Mutex
	cmd *exec.Cmd
}

// end ends the process of the folder $1.
const end = `pid=$(cat "$1/pid" 2>/dev/null) && kill -KILL "$pid" 2>/dev/null`

// New makes the folder, whose name begins with a prefix.
func New(prefix string) (*Process, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	p := &Process{dir: dir}
	if p.keeper, err = reaper.Keep(dir, end); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// Dir returns the folder.
func (p *Process) Dir() string { return p.dir }

// Start starts the process. Its output goes to a file in its folder.
func (p *Process) Start(program string, args ...string) error {
	out, err := os.Create(p.log())
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(context.Background(), program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(p.pid(), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		_ = cmd.Process.Kill()
		return errors.Join(err, cmd.Wait())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = cmd
	return nil
}

func (p *Process) log() string { return filepath.Join(p.dir, "log") }
func (p *Process) pid() string { return filepath.Join(p.dir, "pid") }

// Said returns what the process has printed since it was started.
func (p *Process) Said() []byte {
	text, _ := os.ReadFile(p.log()) // is for people
	return text
}

// Pid returns the id of the process; 0: it does not run.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Kill ends the process at once, as kill -9 does.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
	_ = os.Remove(p.pid())
}

// Stop suspends the process until Continue; its connections stay open.
func (p *Process) Stop() { p.signal(syscall.SIGSTOP) }

// Continue ends a Stop.
func (p *Process) Continue() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig)
	}
}

// Close ends the process and removes its folder.
func (p *Process) Close() {
	if p == nil {
		return
	}
	p.Kill()
	_ = os.RemoveAll(p.dir)
	p.keeper.Close()
}
