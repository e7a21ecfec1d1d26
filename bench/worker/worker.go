package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// Worker is a worker process.
type Worker struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan Reply
	ended   chan struct{} // closed after the process has closed its output
	stderr  *tail

	mu   sync.Mutex
	last Tick
}

// Start starts a worker process through start. command is the program with the arguments that make it call Serve.
func Start(ctx context.Context, command []string, start func(*exec.Cmd) error) (*Worker, error) {
	w := &Worker{
		cmd: exec.CommandContext(ctx, command[0], command[1:]...), replies: make(chan Reply, 1),
		ended: make(chan struct{}), stderr: &tail{},
	}
	// GOMAXPROCS: the loop and the pacing thread. GOGC: rare collections, because a worker's memory does not matter.
	w.cmd.Env = append(os.Environ(), "GOMAXPROCS=2", "GOGC=400")
	w.cmd.Stderr = w.stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	if err := start(w.cmd); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	w.in = in
	go w.listen(out) // ends with the process, which Stop waits for
	return w, nil
}

func (w *Worker) listen(out io.Reader) {
	defer close(w.ended)
	dec := json.NewDecoder(bufio.NewReader(out))
	for {
		var r Reply
		if dec.Decode(&r) != nil {
			return
		}
		if r.Tick != nil {
			w.mu.Lock()
			w.last = *r.Tick
			w.mu.Unlock()
			continue
		}
		w.replies <- r
	}
}

// PID is the process id.
func (w *Worker) PID() int { return w.cmd.Process.Pid }

// Last returns the newest Tick.
func (w *Worker) Last() Tick {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Call sends a request and waits for its reply. Calls must not overlap.
func (w *Worker) Call(ctx context.Context, req Request) (Reply, error) {
	b, err := json.Marshal(req)
	if err != nil {
		return Reply{}, err
	}
	if _, err := w.in.Write(append(b, '\n')); err != nil {
		return Reply{}, w.died(err)
	}
	select {
	case r := <-w.replies:
		if r.Error != "" {
			return r, errors.New(r.Error)
		}
		return r, nil
	case <-w.ended:
		return Reply{}, w.died(errors.New("it ended"))
	case <-ctx.Done():
		return Reply{}, context.Cause(ctx)
	}
}

func (w *Worker) died(err error) error {
	if text := w.stderr.String(); text != "" {
		return fmt.Errorf("a worker failed: %w: %s", err, text)
	}
	return fmt.Errorf("a worker failed: %w", err)
}

// Stop ends the process at once; its connections break.
func (w *Worker) Stop() {
	_ = w.cmd.Process.Kill() // fails only if the process has already ended
	w.in.Close()
	<-w.ended
	_ = w.cmd.Wait() // killed
}

// tail keeps the last part of a process's error output.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const maxTail = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(b)
	if over := t.b.Len() - maxTail; over > 0 {
		t.b.Next(over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.b.String())
}
