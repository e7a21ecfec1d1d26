package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience limits waits for quick operations.
const patience = 30 * time.Second

// process is a program that the demonstration has started.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}
	err   error
}

// launch starts a program, which keeps running after ctx until it is stopped. Each line of its output is passed to line; its error output
// goes to the file NAME.log.
func launch(ctx context.Context, dir, name string, line func(string), env []string, command string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.CommandContext(context.WithoutCancel(ctx), command, args...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line(lines.Text())
		}
		if err := p.cmd.Wait(); err != nil {
			text, _ := os.ReadFile(log.Name())
			p.err = fmt.Errorf("the %s ended: %w\n%s", name, err, strings.TrimSpace(string(text)))
		}
	}()
	return p, nil
}

// stop asks the program to end, and kills it if it does not.
func (p *process) stop() {
	p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	<-p.ended
}

// finish closes the program's input and waits until it ends by itself.
func (p *process) finish() {
	p.stdin.Close()
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	<-p.ended
}

// failure returns the error of a program that should be running and has ended.
func (p *process) failure() error {
	if p.err != nil {
		return p.err
	}
	return fmt.Errorf("the %s ended", p.name)
}

// addresses is the content of the file that a server writes once it listens.
type addresses struct {
	HTTP string `json:"http"`
	GRPC string `json:"grpc"`
}

// startServer starts Godwit with the authority's certificates and one app.
func startServer(ctx context.Context, o *options) (*process, addresses, error) {
	file := func(name string) string { return filepath.Join(o.dir, name) }
	where := filepath.Join(o.dir, "data", "addresses.json")
	var a addresses
	if err := os.Remove(where); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, a, err // of an earlier server
	}
	p, err := launch(ctx, o.dir, "server", func(string) {},
		[]string{"GODWIT_BOOTSTRAP_APP=" + app, "GODWIT_BOOTSTRAP_KEY_FILE=" + file("api-key")},
		o.godwit, "serve", "--data", file("data"), "--http-addr", o.http, "--grpc-addr", o.grpc,
		"--tls-cert", file("server.crt"), "--tls-key", file("server.key"), "--tls-client-ca", file("ca.crt"))
	if err != nil {
		return nil, a, err
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		if b, err := os.ReadFile(where); err == nil && json.Unmarshal(b, &a) == nil {
			return p, a, nil
		}
		select {
		case <-again.C:
			continue
		case <-p.ended:
			err = p.failure()
		case <-late.C:
			err = fmt.Errorf("the server was not ready in %s", patience)
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.stop()
		return nil, a, err
	}
}

// crowd is the process that runs the units, and its output.
type crowd struct {
	*process
	say func(string, ...any)

	mu    sync.Mutex
	said  map[string]int // how often each line
	news  chan struct{}  // closed and replaced when a line arrives
	lines int
}

func startUnits(ctx context.Context, o *options, a addresses, units []string) (*crowd, error) {
	c := &crowd{say: o.say, said: map[string]int{}, news: make(chan struct{})}
	_, port, _ := strings.Cut(a.GRPC, ":")
	args := append([]string{o.units, "--dir", o.dir, "--port", port, "--domain", app, "--group", group}, units...)
	var err error
	c.process, err = launch(ctx, o.dir, "units", c.hear, o.env, o.python, args...)
	return c, err
}

func (c *crowd) hear(line string) {
	c.say("    %s", line)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said[line]++
	c.lines++
	close(c.news)
	c.news = make(chan struct{})
}

// tell sends a command to the units' program.
func (c *crowd) tell(format string, args ...any) error {
	_, err := fmt.Fprintf(c.stdin, format+"\n", args...)
	return err
}

// await waits until the units have printed all of these lines.
func (c *crowd) await(ctx context.Context, lines ...string) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for _, line := range lines {
		for {
			c.mu.Lock()
			heard, news := c.said[line] > 0, c.news
			c.mu.Unlock()
			if heard {
				break
			}
			select {
			case <-news:
			case <-c.ended:
				return c.failure()
			case <-late.C:
				return fmt.Errorf("no unit said %q in %s", line, patience)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}
