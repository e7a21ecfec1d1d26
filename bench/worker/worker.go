package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/bench/loadgen"
)

// Worker is a worker: a process of this machine, or part of one on another machine.
type Worker struct {
	in      io.Writer
	replies chan Reply
	ended   chan struct{} // closed when nothing comes from the worker any more
	end     func()        // ends it at once
	stderr  *tail
	pid     int      // 0: on another machine
	where   *Machine // nil: this one

	mu   sync.Mutex
	last Tick
}

func newWorker(in io.Writer, end func()) *Worker {
	return &Worker{in: in, end: end, replies: make(chan Reply, 1), ended: make(chan struct{}), stderr: &tail{}}
}

// Start starts a worker process through start. command is the program with the arguments that make it call Serve.
func Start(ctx context.Context, command []string, start func(*exec.Cmd) error) (*Worker, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	w := newWorker(in, func() {
		_ = cmd.Process.Kill() // fails only if the process has already ended
		in.Close()
	})
	// GOMAXPROCS: the loop and the pacing thread. GOGC: rare collections, because a worker's memory does not matter.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2", "GOGC=400")
	cmd.Stderr = w.stderr
	if err := start(cmd); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	w.pid = cmd.Process.Pid
	kill := w.end
	w.end = func() {
		kill()
		<-w.ended
		_ = cmd.Wait() // killed
	}
	go w.listen(replies(out)) // ends with the process, which Stop waits for
	return w, nil
}

func (w *Worker) listen(lines *replyLines) {
	defer close(w.ended)
	for {
		var r Reply
		if lines.next(&r) != nil {
			return
		}
		if r.Tick != nil {
			w.mu.Lock()
			w.last = *r.Tick
			w.mu.Unlock()
			continue
		}
		select {
		case w.replies <- r:
		default: // nobody has asked
			return
		}
	}
}

// PID is the process id; 0: the worker runs on another machine.
func (w *Worker) PID() int { return w.pid }

// Where is the other machine that the worker runs on; nil: it is this one.
func (w *Worker) Where() *Machine { return w.where }

// alive reports whether anything may still come from the worker.
func (w *Worker) alive() bool {
	select {
	case <-w.ended:
		return false
	default:
		return true
	}
}

// Last returns the newest Tick.
func (w *Worker) Last() Tick {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Call sends a request and waits for its reply. Calls must not overlap.
func (w *Worker) Call(ctx context.Context, req Request) (Reply, error) {
	if err := w.send(&req); err != nil {
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

func (w *Worker) send(req *Request) error {
	b, err := json.Marshal(req)
	if err == nil {
		_, err = w.in.Write(append(b, '\n'))
	}
	return err
}

func (w *Worker) died(err error) error {
	what := "a worker"
	if w.where != nil {
		what += " on " + w.where.Name
	}
	if text := w.stderr.String(); text != "" {
		return fmt.Errorf("%s failed: %w: %s", what, err, text)
	}
	return fmt.Errorf("%s failed: %w", what, err)
}

// clockReadings is how often the clock of another machine is read to compare it: the reading that took least time is the best.
const clockReadings = 20

// CompareClocks makes a worker on another machine count in the time of this one, where publishers run, and returns how far the comparison may
// be wrong: by half of the time that it took.
func (w *Worker) CompareClocks(ctx context.Context) (within time.Duration, ahead time.Duration, err error) {
	best := int64(math.MaxInt64)
	var offset int64
	for range clockReadings {
		sent := loadgen.Now()
		reply, err := w.Call(ctx, Request{Clock: &Clock{}})
		if err != nil {
			return 0, 0, err
		}
		back := loadgen.Now()
		if took := back - sent; took < best {
			best, offset = took, sent+took/2-reply.Now
		}
	}
	_, err = w.Call(ctx, Request{Clock: &Clock{Ahead: &offset}})
	return time.Duration(best / 2), time.Duration(offset), err
}

// Stop ends the worker at once; its connections break.
func (w *Worker) Stop() {
	w.end()
	<-w.ended
}

// farewellPatience is how long a worker may take to leave.
const farewellPatience = 2 * time.Second

// farewell tells an idle worker that the run has ended, and lets it leave: data that it sends to a closed connection would take away what it
// was told.
func (w *Worker) farewell() {
	defer w.Stop()
	if w.send(&Request{Ended: true}) != nil {
		return // it notices the closed connection
	}
	t := time.NewTimer(farewellPatience)
	defer t.Stop()
	select {
	case <-w.ended:
	case <-t.C:
	}
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
