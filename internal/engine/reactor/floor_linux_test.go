package reactor

import (
	"log/slog"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkFloor measures the system's own cost of a burst: a write of 64 bytes to each of a thousand connections over loopback, then a
// read of each. No delivery can cost less CPU time than one of each.
func BenchmarkFloor(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const conns = 1000
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	var near, far [conns]int
	for i := range conns {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		p, err := ln.Accept()
		if err != nil {
			b.Fatal(err)
		}
		near[i], far[i] = bare(b, c), bare(b, p)
	}
	out, in := make([]byte, 64), make([]byte, 4096)
	var writes, reads time.Duration
	for b.Loop() {
		begun := cpuTime(b)
		for _, fd := range near {
			if _, err := unix.Write(fd, out); err != nil {
				b.Fatal(err)
			}
		}
		between := cpuTime(b)
		for _, fd := range far {
			if _, err := unix.Read(fd, in); err != nil {
				b.Fatal(err)
			}
		}
		writes, reads = writes+between-begun, reads+cpuTime(b)-between
	}
	b.ReportMetric(float64(writes.Nanoseconds())/float64(b.N)/conns, "cpu-ns/write")
	b.ReportMetric(float64(reads.Nanoseconds())/float64(b.N)/conns, "cpu-ns/read")
}

// BenchmarkWriteToMany writes the bytes of a small notification to each of many connections, as a fan-out does. It does not count the time
// of the peers' reads.
func BenchmarkWriteToMany(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const conns = 200
	r, err := New(Config{Loops: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	var near [conns]*Conn
	var far [conns]int
	for i := range conns {
		peer, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		nc, err := ln.Accept()
		if err != nil {
			b.Fatal(err)
		}
		opened := make(chan *Conn, 1)
		if err := r.Adopt(nc, nil, func(c *Conn) Handler { opened <- c; return newFake() }); err != nil {
			b.Fatal(err)
		}
		near[i], far[i] = <-opened, bare(b, peer)
	}
	head, tail, in := make([]byte, 80), make([]byte, 280), make([]byte, 4096)
	var took time.Duration
	for b.Loop() {
		begun := threadTime(b)
		for _, c := range near {
			if !c.Write(head, tail) {
				b.Fatal("a write was refused")
			}
		}
		took += threadTime(b) - begun
		for _, fd := range far {
			if _, err := unix.Read(fd, in); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/conns, "cpu-ns/write")
}

// threadTime returns the CPU time that this thread has used so far.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// bare returns a connection's descriptor, detached from the runtime's poller.
func bare(b *testing.B, c net.Conn) int {
	b.Helper()
	defer c.Close()
	rc, err := rawConn(c)
	if err != nil {
		b.Fatal(err)
	}
	var fd int
	if cerr := rc.Control(func(f uintptr) { fd, err = unix.Dup(int(f)) }); cerr != nil || err != nil {
		b.Fatal(cerr, err)
	}
	b.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
