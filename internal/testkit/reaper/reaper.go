// Package reaper sees that servers which tests and benchmarks start leave nothing behind, however the process ends that started them.
package reaper

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Keep starts a process that outlives this one for a moment, however this one ends: it runs end, a shell script that ends the server
// of the folder $1, and removes the folder. It does so too once what Keep returns is closed. A signal at the parent's death would
// end the server as well, but leave its files, and comes when the thread ends that started it.
func Keep(dir, end string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	script := "trap '' INT TERM HUP; cat; cd /\n" + end + "\n" + `rm -rf "$1" || { sleep 1; rm -rf "$1"; }`
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", script, "sh", dir)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that it does not end with an interrupted terminal
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("start the process that ends the server: %w", err)
	}
	return w, cmd.Process.Release()
}
