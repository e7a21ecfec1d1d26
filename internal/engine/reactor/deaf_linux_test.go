package reactor

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// caller is a peer that can hang up.
type caller struct {
	net.Conn

	t      *testing.T
	socket *net.TCPConn
}

func call(t *testing.T, h *harness, addr string) *caller {
	t.Helper()
	p := &caller{t: t}
	p.Conn = h.dial(addr, func(c *net.TCPConn) { p.socket = c })
	return p
}

func (p *caller) says(what string) {
	p.t.Helper()
	if _, err := p.Write([]byte(what)); err != nil {
		p.t.Fatal(err)
	}
}

// hangsUp resets the connection.
func (p *caller) hangsUp() {
	p.t.Helper()
	if err := p.socket.SetLinger(0); err != nil {
		p.t.Fatal(err)
	}
	_ = p.socket.Close()
}

// writeUntilDeaf writes to a peer that has hung up until that is noticed.
func writeUntilDeaf(t *testing.T, c *Conn) {
	t.Helper()
	more := make([]byte, 2*corkSize)
	for !c.Deaf() {
		c.Write(nil, more)
	}
	if c.Write(nil, more) {
		t.Error("a peer that is gone takes more")
	}
}

func wantReset(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("closed because of %v, want the reset", err)
	}
}

const acks = "ack 1, ack 2, goodbye"

// A handler that pauses, for instance until something is stored, gets afterwards what its peer sent before it hung up.
func TestWhatAPeerSentLastIsReadAfterAPause(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		conns, got := make(chan *Conn, 1), make(chan string, 10)
		f := newFake()
		f.data = func(b []byte) (int, error) { got <- string(b); return len(b), nil }
		addr := h.handle(func(c *Conn) Handler {
			c.Pause()
			conns <- c
			return f
		})
		p := call(t, h, addr)
		p.says(acks)
		p.hangsUp()
		c := wait(t, conns, "the connection")
		writeUntilDeaf(t, c)
		c.Resume()
		if s := wait(t, got, "the input"); s != acks {
			t.Errorf("got %q, want %q", s, acks)
		}
		wantReset(t, wait(t, f.closed, "Closed"))
	})
}

// The handler gets the last bytes of a peer, although a write to that peer has failed.
func TestWhatAPeerSentLastIsReadAfterAFailedWrite(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		conns, got, held := make(chan *Conn, 1), make(chan string, 10), make(chan bool)
		f := newFake()
		f.data = func(b []byte) (int, error) {
			got <- string(b)
			<-held
			return len(b), nil
		}
		addr := h.handle(func(c *Conn) Handler { conns <- c; return f })
		p := call(t, h, addr)
		p.says("hello")
		c := wait(t, conns, "the connection")
		wait(t, got, "the hello")
		p.says(acks)
		p.hangsUp()
		writeUntilDeaf(t, c)
		close(held)
		if s := wait(t, got, "the input"); s != acks {
			t.Errorf("got %q, want %q", s, acks)
		}
		wantReset(t, wait(t, f.closed, "Closed"))
	})
}

// A peer that hangs up during a pause without end is given up after a while.
func TestAPauseAfterTheEndOfThePeerEnds(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		h.r.linger = 100 * time.Millisecond
		conns := make(chan *Conn, 1)
		f := newFake()
		addr := h.handle(func(c *Conn) Handler {
			c.Pause()
			conns <- c
			return f
		})
		p := call(t, h, addr)
		p.hangsUp()
		c := wait(t, conns, "the connection")
		writeUntilDeaf(t, c)
		wantReset(t, wait(t, f.closed, "Closed"))
	})
}

// While the handler is made, the peer may hang up: the limit of its first byte does not replace the one of its end.
func TestAPeerThatHangsUpWhileItsHandlerIsMadeIsGivenUp(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		h.r.linger = 100 * time.Millisecond
		f, gone := newFake(), make(chan bool)
		addr := h.handle(func(c *Conn) Handler {
			c.Pause()
			<-gone
			writeUntilDeaf(t, c)
			return f
		})
		call(t, h, addr).hangsUp()
		close(gone)
		wantReset(t, wait(t, f.closed, "Closed"))
	})
}
