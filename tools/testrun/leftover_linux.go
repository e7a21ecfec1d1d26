package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of every process below it whose own parent ends.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphaned processes: %w", err)
	}
	return nil
}

// reportLeftover ends the processes that tests left running, and reports them as a failed package. They have patience to end by themselves.
func reportLeftover(out *lines, patience time.Duration) error {
	const name = "processes"
	left := children()
	for until := time.Now().Add(patience); len(left) > 0 && time.Now().Before(until); left = children() {
		time.Sleep(50 * time.Millisecond)
	}
	if len(left) == 0 {
		return nil
	}
	errs := []error{out.result(result{Action: "start", Package: name})}
	for pid, command := range left {
		_ = unix.Kill(pid, unix.SIGKILL)
		errs = append(errs, out.result(result{Action: "output", Package: name, Output: "left running: " + command + "\n"}))
	}
	errs = append(errs, out.result(result{Action: "fail", Package: name}), fmt.Errorf("tests left %d processes running", len(left)))
	return errors.Join(errs...)
}

// children returns the command lines of this process's children by process id, without those that have ended. It must not be called while a
// command is waited for.
func children() map[int]string {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
			break
		}
	}
	found := make(map[int]string)
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, _ := os.ReadFile(file) // which is gone if the process has ended
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if fields := strings.Fields(string(rest)); len(fields) < 2 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && len(command) > 0 {
			found[pid] = string(bytes.ReplaceAll(bytes.TrimRight(command, "\x00"), []byte{0}, []byte(" ")))
		}
	}
	return found
}
