// Package reaper makes sure that servers started by tests and benchmarks leave nothing behind, however the starting process ends.
package reaper

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Keep starts a process that outlives this one briefly, however this one ends. It then runs end, a shell script that ends the server of the
// folder $1, and removes the folder. Closing the returned file has the same effect. A signal at the parent's death would also end the
// server, but would leave its files, and it comes already when the thread ends that started the server.
func Keep(dir, end string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	script := "trap '' INT TERM HUP; cat; cd /\n" + end + "\n" + `rm -rf "$1" || { sleep 1; rm -rf "$1"; }`
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", script, "sh", dir)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that an interrupt from the terminal does not end it
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("start the process that ends the server: %w", err)
	}
	return w, cmd.Process.Release()
}
