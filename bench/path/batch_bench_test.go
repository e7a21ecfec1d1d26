package path

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpu returns the CPU time that this process has used.
func cpu(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// count reads until the input has contained a byte n times.
func (w *wire) count(b *testing.B, mark byte, n int) {
	for n > 0 {
		got, err := w.Read(w.buf[:])
		if err != nil {
			b.Fatal(err)
		}
		n -= bytes.Count(w.buf[:got], []byte{mark})
	}
}

// BenchmarkBatch publishes a hundred notifications in one request and one commit to a session that settles each by the first write. So the work of a
// publish does not depend on how many meet in a commit, and two builds can be compared by CPU time on a busy machine.
func BenchmarkBatch(b *testing.B) {
	const each, mark = 100, '~'
	addr := serve(b)
	sub, pub := session(b, addr, "r"), connect(b, addr)
	line := `{"to":"r","ack":"none","data":{"pad":"` + strings.Repeat("x", 170) + string(mark) + `"}}` + "\n"
	body := strings.Repeat(line, each)
	request := fmt.Appendf(nil, "POST /v1/notifications/batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dev\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	// Each line of the answer is an object without others in it, and no header has a brace.
	one := func() {
		pub.send(b, request)
		sub.count(b, mark, each)
		pub.count(b, '}', each)
	}
	for range 20 {
		one()
	}
	runtime.GC()
	b.ReportAllocs()
	begun := cpu(b)
	for b.Loop() {
		one()
	}
	b.ReportMetric(float64(cpu(b)-begun)/float64(b.N)/each, "cpu-ns/publish")
}
