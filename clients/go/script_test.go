package godwit

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"
)

// script is a server whose behaviour on each connection is set by the test.
type script struct {
	mu    sync.Mutex
	conns []*scripted
	play  func(n int, c *scripted) error // n is 1 for the first connection; an error refuses the connection
	as    func(*scripted) conn           // nil: as it is
}

// scripted is one connection to a script.
type scripted struct {
	in     chan serverFrame
	seen   chan clientFrame // frames from the client, including hello
	closed chan struct{}
	once   sync.Once
	err    error
}

func (s *script) dial(context.Context) (conn, error) {
	c := &scripted{in: make(chan serverFrame, 100), seen: make(chan clientFrame, 1000), closed: make(chan struct{}), err: io.EOF}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	n := len(s.conns)
	s.mu.Unlock()
	if err := s.play(n, c); err != nil {
		return nil, err
	}
	if s.as != nil {
		return s.as(c), nil
	}
	return c, nil
}

func (s *script) dials() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (c *scripted) send(frames ...*clientFrame) error {
	for _, f := range frames {
		c.seen <- *f
	}
	select {
	case <-c.closed:
		return io.ErrClosedPipe
	default:
		return nil
	}
}

func (c *scripted) recv() (serverFrame, error) {
	select {
	case f := <-c.in:
		return f, nil
	default:
	}
	select {
	case f := <-c.in:
		return f, nil
	case <-c.closed:
		return serverFrame{}, c.err
	}
}

func (c *scripted) finish() { c.end(io.EOF) }

func (c *scripted) abort() { c.end(io.ErrClosedPipe) }

func (c *scripted) end(err error) { c.once.Do(func() { c.err = err; close(c.closed) }) }

func (c *scripted) welcome() {
	c.in <- serverFrame{Welcome: &Welcome{Session: "s", Heartbeat: 30 * time.Second}}
}

func (c *scripted) notify(id string) { c.in <- serverFrame{Notification: &Notification{ID: id}} }

// acks removes the client's frames so far and returns the ids they acknowledge.
func (c *scripted) acks() (acked []string) {
	for {
		select {
		case f := <-c.seen:
			if f.Ack != nil {
				acked = append(acked, f.Ack.IDs...)
			}
		default:
			return acked
		}
	}
}

// listening is a running listener connected to a script, within synctest.
type listening struct {
	*script
	l    *listener
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

func listen(t *testing.T, play func(n int, c *scripted) error, handle Handler, opts ...ListenOption) *listening {
	t.Helper()
	return listenBy(t, nil, play, handle, opts...)
}

// listenBy is listen by connections of another kind.
func listenBy(t *testing.T, as func(*scripted) conn, play func(n int, c *scripted) error, handle Handler, opts ...ListenOption) *listening {
	t.Helper()
	c, err := New("http://example.org", WithToken("t"))
	if err != nil {
		t.Fatal(err)
	}
	o := listenOptions{concurrency: 1, ackDelay: usualAckDelay}
	for _, opt := range opts {
		opt(&o)
	}
	s := &script{play: play, as: as}
	l := newListener(c, "driver-42", handle, o)
	l.dial = s.dial
	ctx, stop := context.WithCancel(t.Context())
	ls := &listening{script: s, l: l, t: t, stop: stop, done: make(chan error, 1)}
	go func() { ls.done <- l.run(ctx) }()
	return ls
}

// end stops the listener and checks that it ends with context.Canceled.
func (l *listening) end() {
	l.t.Helper()
	l.stop()
	if err := <-l.done; !errors.Is(err, context.Canceled) {
		l.t.Errorf("Listen returned %v", err)
	}
}
