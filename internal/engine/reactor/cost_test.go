package reactor

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

func TestIdleConnectionIsOneSmallStruct(t *testing.T) {
	if n := unsafe.Sizeof(Conn{}); n > 256 {
		t.Errorf("a Conn takes %d bytes, the aim is at most 256 with its handler's pointer", n)
	}
}

func TestEpollConnectionsHaveNoGoroutine(t *testing.T) {
	if bestDriver != DriverEpoll {
		t.Skip("there is no epoll here")
	}
	h := newHarness(t, Config{}, false)
	opened := make(chan bool, 50)
	addr := h.handle(func(c *Conn) Handler { opened <- true; return echo(c) })
	before := runtime.NumGoroutine()
	for range 50 {
		c := h.dial(addr)
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		readFull(t, c, 1)
		wait(t, opened, "the connection")
	}
	if n := runtime.NumGoroutine() - before; n > 10 {
		t.Errorf("50 connections made %d goroutines", n)
	}
}

// connected returns a connection whose peer's data only the kernel reads and discards.
func connected(tb testing.TB, f *fake) (*Conn, net.Conn) {
	r, err := New(Config{Loops: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { peer.Close() })
	nc, err := ln.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	conns := make(chan *Conn, 1)
	if err := r.Adopt(nc, nil, func(c *Conn) Handler { conns <- c; return f }); err != nil {
		tb.Fatal(err)
	}
	return <-conns, peer
}

func TestWriteAllocatesNothing(t *testing.T) {
	c, peer := connected(t, newFake())
	head, tail, sink := make([]byte, 20), make([]byte, 1000), make([]byte, 1020)
	n := testing.AllocsPerRun(200, func() {
		if !c.Write(head, tail) {
			t.Fatal("a write was refused")
		}
		if _, err := io.ReadFull(peer, sink); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a write, want none", n)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	f := newFake()
	got := make(chan int, 1)
	f.data = func(b []byte) (int, error) { got <- len(b); return len(b), nil }
	_, peer := connected(t, f)
	b := make([]byte, 1000)
	n := testing.AllocsPerRun(200, func() {
		if _, err := peer.Write(b); err != nil {
			t.Fatal(err)
		}
		<-got
	})
	if n >= 1 {
		t.Errorf("%v allocations a read, want none", n)
	}
}

func BenchmarkWrite(b *testing.B) {
	c, peer := connected(b, newFake())
	go func() { _, _ = io.Copy(io.Discard, peer) }()
	head, tail := make([]byte, 20), make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		for !c.Write(head, tail) {
			runtime.Gosched()
		}
	}
}

func BenchmarkEcho(b *testing.B) {
	f := newFake()
	var c *Conn
	ready := make(chan bool)
	f.data = func(p []byte) (int, error) { <-ready; c.Write(p, nil); return len(p), nil }
	c, peer := connected(b, f)
	close(ready)
	buf := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := peer.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(peer, buf); err != nil {
			b.Fatal(err)
		}
	}
}

// sickListener fails several times before it works.
type sickListener struct {
	net.Listener
	failures atomic.Int32
}

func (l *sickListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestServeSurvivesAcceptErrors(t *testing.T) {
	h := newHarness(t, Config{}, false)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sick := &sickListener{Listener: ln}
	sick.failures.Store(4)
	served := make(chan error, 1)
	go func() {
		served <- h.r.Serve(t.Context(), sick, nil, Limits{}, func(c *Conn) (Handler, error) { return echo(c), nil })
	}()
	peer := h.dial(ln.Addr().String())
	if _, err := peer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	readFull(t, peer, 1)
	ln.Close() // behind Serve's back
	if err := wait(t, served, "Serve"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve ended with %v, want that its listener is closed", err)
	}
}

func TestFloodOfRefusalsIsLoggedOnceASecond(t *testing.T) {
	var l rateLog
	now := time.Now()
	if n, ok := l.allow(now); !ok || n != 0 {
		t.Errorf("the first message: %v, %d left out", ok, n)
	}
	for range 10 {
		if _, ok := l.allow(now.Add(999 * time.Millisecond)); ok {
			t.Error("a second message within a second")
		}
	}
	if n, ok := l.allow(now.Add(time.Second)); !ok || n != 10 {
		t.Errorf("after a second: %v, %d left out; want 10", ok, n)
	}
}
