package worker

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// joinPatience is how long a run waits for its machines: people start them by hand.
	joinPatience = 10 * time.Minute
	// greetPatience is how long a connection may take to show that it knows the token, and to introduce itself.
	greetPatience = 10 * time.Second
	// mostGreeted is the number of connections that are greeted at a time. Others wait in the system's queue.
	mostGreeted = 256
	// silence is how long a joined worker may say nothing. It says something every second.
	silence = 30 * time.Second
)

// Run lets workers of other machines join a measurement. Each machine keeps one idle connection to the run; for each use it opens another.
type Run struct {
	ln    net.Listener
	names int // of machines that may join

	mu       sync.Mutex
	machines []*joined     // in the order in which they came
	changed  chan struct{} // closed, and replaced, when a worker becomes idle
	begun    bool          // all machines were there: no others may join
	closed   bool

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// joined is one machine.
type joined struct {
	Machine
	idle *Worker // nil: the machine is opening its next connection
}

// NewRun listens at addr for the workers of as many machines, which must know the token.
func NewRun(ctx context.Context, addr, token string, machines int) (*Run, error) {
	cfg, err := tlsConfig(token, sideRun, sideWorker)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for workers: %w", err)
	}
	r := &Run{ln: ln, names: machines, changed: make(chan struct{})}
	ctx, r.cancel = context.WithCancel(ctx)
	r.wg.Go(func() { r.accept(ctx, cfg) })
	return r, nil
}

// Addr is the address at which workers join.
func (r *Run) Addr() string { return r.ln.Addr().String() }

func (r *Run) accept(ctx context.Context, cfg *tls.Config) {
	slots := make(chan struct{}, mostGreeted)
	for {
		slots <- struct{}{}
		conn, err := r.ln.Accept()
		if err != nil {
			return // closed
		}
		r.wg.Go(func() {
			defer func() { <-slots }()
			r.greet(ctx, tls.Server(conn, cfg))
		})
	}
}

// greet lets a connection in if it knows the token and its machine is expected, and closes it otherwise.
func (r *Run) greet(ctx context.Context, conn *tls.Conn) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(greetPatience)) // fails only if it is closed, as do the reads below
	err := conn.HandshakeContext(ctx)
	var hello Reply
	lines := replies(conn)
	if err == nil {
		err = lines.next(&hello)
	}
	if err != nil || hello.Hello == nil {
		conn.Close()
		return
	}
	w := newWorker(conn, func() { conn.Close() })
	w.where = hello.Hello
	if err := r.admit(w); err != nil {
		_ = w.send(&Request{Refused: err.Error()}) // nobody else reads a connection that is gone
		conn.Close()
		return
	}
	lines.before = func() { _ = conn.SetReadDeadline(time.Now().Add(silence)) }
	_ = conn.SetWriteDeadline(time.Time{})
	go w.listen(lines) // ends with the connection, which Stop closes
}

// admit welcomes a worker, which is idle then, if its machine may take part.
func (r *Run) admit(w *Worker) error {
	h := w.where
	if err := h.check(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun { // machines that have left make room for others
		r.machines = slices.DeleteFunc(r.machines, func(m *joined) bool { return !m.ready() })
	}
	m := r.find(h.Name)
	switch {
	case r.closed:
		return errEnded
	case m == nil && (r.begun || len(r.machines) == r.names):
		return fmt.Errorf("all %d machines have joined", r.names)
	case m != nil && m.ready():
		return fmt.Errorf("a machine named %s has joined already; give each a --name of its own", h.Name)
	case m == nil:
		m = &joined{Machine: *h}
		r.machines = append(r.machines, m)
	}
	if err := w.send(&Request{Welcome: true}); err != nil { // before anybody can send it something else
		return err
	}
	m.idle = w
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// ready reports whether the machine has an idle worker.
func (m *joined) ready() bool { return m.idle != nil && m.idle.alive() }

func (r *Run) find(name string) *joined {
	i := slices.IndexFunc(r.machines, func(m *joined) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return r.machines[i]
}

// Machines waits until all machines have joined, and returns them.
func (r *Run) Machines(ctx context.Context) ([]Machine, error) {
	err := r.await(ctx, func() bool {
		here := 0
		for _, m := range r.machines {
			if m.ready() {
				here++
			}
		}
		r.begun = r.begun || here == r.names
		return here == r.names
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Machine
	for _, m := range r.machines {
		all = append(all, m.Machine)
	}
	if err != nil {
		return nil, fmt.Errorf("%d of %d machines joined: %w", len(all), r.names, err)
	}
	return all, nil
}

// Start returns a worker of a machine, for one use.
func (r *Run) Start(ctx context.Context, machine string) (w *Worker, err error) {
	err = r.await(ctx, func() bool {
		m := r.find(machine)
		if m == nil || !m.ready() {
			return false
		}
		w, m.idle = m.idle, nil
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("start a worker on %s: %w", machine, err)
	}
	return w, nil
}

// await waits until done, which is called under the lock.
func (r *Run) await(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, joinPatience, fmt.Errorf("the others did not come within %s", joinPatience))
	defer cancel()
	for {
		r.mu.Lock()
		ok, changed := done(), r.changed
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close ends the run: idle workers are told, and no more may join. Workers in use go on until their Stop.
func (r *Run) Close() {
	r.cancel()
	r.ln.Close()
	r.mu.Lock()
	r.closed = true
	for _, m := range r.machines {
		if m.idle != nil {
			r.wg.Go(m.idle.farewell)
			m.idle = nil
		}
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// maxReply is the longest line that a worker sends, in bytes: a histogram takes some 300 KB.
const maxReply = 8 << 20

// replyLines reads replies.
type replyLines struct {
	lines  *bufio.Scanner
	before func() // called before each line is read; nil: nothing
}

func replies(in io.Reader) *replyLines {
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxReply)
	return &replyLines{lines: s}
}

func (l *replyLines) next(r *Reply) error {
	if l.before != nil {
		l.before()
	}
	if !l.lines.Scan() {
		if err := l.lines.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	return json.Unmarshal(l.lines.Bytes(), r)
}
