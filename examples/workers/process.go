package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience limits waits for quick operations.
const patience = 30 * time.Second

// process is a program that the demonstration has started.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string        // file with all its output
	ended chan struct{} // closed when it has
}

// launch starts a program, which keeps running after ctx until it is stopped.
func launch(ctx context.Context, dir, name string, env []string, command string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.CommandContext(context.WithoutCancel(ctx), command, args...), log: log.Name(), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(os.Environ(), env...), log, log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState has the result
	}()
	return p, nil
}

// stop asks the program to end, and kills it if it does not.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	<-p.ended
}

// failure returns the error of a program that should be running and has ended.
func (p *process) failure() error {
	text, _ := os.ReadFile(p.log)
	return fmt.Errorf("%s ended: %s\n%s", p.name, p.cmd.ProcessState, strings.TrimSpace(string(text)))
}

// until repeats ok until it returns true, while the program runs.
func (p *process) until(ctx context.Context, what string, ok func() (bool, error)) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		if done, err := ok(); err != nil || done {
			return err
		}
		select {
		case <-again.C:
		case <-p.ended:
			return p.failure()
		case <-late.C:
			return fmt.Errorf("%s in %s", what, patience)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// addresses is the content of the file that a server writes once it listens.
type addresses struct {
	HTTP    string `json:"http"`
	NATS    string `json:"nats"`
	Gateway string `json:"gateway"`
}

// startServer starts a development server with app demo and key dev.
func startServer(ctx context.Context, o *options, data string) (p *process, at addresses, err error) {
	p, err = launch(ctx, o.dir, "server", nil, o.godwit,
		"serve", "--dev", "--data", data, "--http-addr", o.http, "--gateway-addr", o.gateway, "--grpc-addr", "off", "--nats-addr", "127.0.0.1:0")
	if err != nil {
		return nil, at, err
	}
	err = p.until(ctx, "the server was not ready", func() (bool, error) {
		b, err := os.ReadFile(filepath.Join(data, "addresses.json"))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil && json.Unmarshal(b, &at) == nil, err
	})
	if err != nil {
		p.stop()
	}
	return p, at, err
}
