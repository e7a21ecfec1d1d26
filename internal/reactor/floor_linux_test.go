package reactor

import (
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkFloor is what the system alone asks for a burst: a write of 64 bytes to each of a thousand connections over
// loopback, then a read of each, and nothing else. No delivery can cost less CPU time than one of each.
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

// bare is a connection's descriptor without the runtime's poller.
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
