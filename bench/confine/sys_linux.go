package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// allowed returns the cores that this process may run on.
func allowed() (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("find the cores of this process: %w", err)
	}
	for n := range len(set) * 64 {
		if set.IsSet(n) {
			cpus = append(cpus, n)
		}
	}
	return cpus, nil
}

// startOn starts a program pinned to some cores; nil: all. The program inherits them from the thread that starts it, so none of its threads
// ever runs elsewhere.
func startOn(cpus []int, cmd *exec.Cmd) error {
	if cpus == nil {
		return cmd.Start()
	}
	var before, set unix.CPUSet
	for _, n := range cpus {
		set.Set(n)
	}
	runtime.LockOSThread()
	err := unix.SchedGetaffinity(0, &before)
	if err == nil {
		err = unix.SchedSetaffinity(0, &set)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("pin to CPU %s: %w", list(cpus), err)
	}
	started := cmd.Start()
	if err := unix.SchedSetaffinity(0, &before); err != nil {
		return errors.Join(started, fmt.Errorf("leave CPU %s: %w", list(cpus), err)) // the thread stays locked, and ends with the goroutine
	}
	runtime.UnlockOSThread()
	return started
}

// enter makes cmd start inside the cgroup. The caller must call done after the start.
func (g *group) enter(cmd *exec.Cmd) (done func(), err error) {
	dir, err := os.Open(g.dir)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	return func() { dir.Close() }, nil
}
