package path

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/config"
)

// serve starts a development server and returns its HTTP address.
func serve(b *testing.B) string {
	b.Helper()
	c := config.Default()
	c.Data, c.Dev, c.HTTPAddr, c.GRPCAddr = b.TempDir(), true, "127.0.0.1:0", "off"
	a, err := app.Start(b.Context(), c, app.Options{Log: slog.New(slog.DiscardHandler), Version: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := a.Stop(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	})
	return a.Addresses().HTTP
}

// wire is a connection that reads into one buffer.
type wire struct {
	net.Conn
	buf [64 << 10]byte
}

func connect(b *testing.B, addr string) *wire {
	b.Helper()
	var d net.Dialer
	conn, err := d.DialContext(b.Context(), "tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return &wire{Conn: conn}
}

// until reads until the input contains mark, and returns all input since the last call.
func (w *wire) until(b *testing.B, mark []byte) []byte {
	for n := 0; ; {
		got, err := w.Read(w.buf[n:])
		if err != nil {
			b.Fatal(err)
		}
		if n += got; bytes.Contains(w.buf[:n], mark) {
			return w.buf[:n]
		}
	}
}

func (w *wire) send(b *testing.B, p []byte) {
	if _, err := w.Write(p); err != nil {
		b.Fatal(err)
	}
}

// session opens a WebSocket session.
func session(b *testing.B, addr, recipient string) *wire {
	b.Helper()
	w := connect(b, addr)
	w.send(b, []byte("GET /v1/connect HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
	w.until(b, []byte("\r\n\r\n"))
	w.send(b, masked(fmt.Appendf(nil, `{"hello":{"recipient":%q,"heartbeat":"24h"}}`, recipient)))
	w.until(b, []byte(`"welcome"`))
	return w
}

// masked returns p as a masked text frame; p must be short.
func masked(p []byte) []byte {
	return append([]byte{0x81, 0x80 | byte(len(p)), 0, 0, 0, 0}, p...)
}

// BenchmarkPublishDeliverAck sends notifications one after the other; each waits for its fsync.
func BenchmarkPublishDeliverAck(b *testing.B) {
	addr := serve(b)
	sub, pub := session(b, addr, "r"), connect(b, addr)
	body := `{"to":"r","data":{"pad":"` + string(bytes.Repeat([]byte("x"), 170)) + `"}}`
	request := fmt.Appendf(nil, "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dev\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	idMark, end := []byte(`"id":"`), []byte(`"}}`)
	answered := []byte(`"expires_at"`)
	ack := masked(fmt.Appendf(nil, `{"ack":{"ids":["%026d"]}}`, 0))
	at := bytes.Index(ack, []byte("00000000000000000000000000"))
	b.ReportAllocs()
	for b.Loop() {
		pub.send(b, request)
		frame := sub.until(b, end)
		id := frame[bytes.Index(frame, idMark)+len(idMark):][:26] // a ULID
		copy(ack[at:], id)
		sub.send(b, ack)
		pub.until(b, answered)
	}
}

// BenchmarkIdle keeps idle sessions open for a tenth of a second per iteration. The cost of the sessions is the difference to the run
// without sessions.
func BenchmarkIdle(b *testing.B) {
	for _, sessions := range []int{0, 1000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			addr := serve(b)
			for i := range sessions {
				session(b, addr, fmt.Sprintf("idle-%d", i))
			}
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				time.Sleep(100 * time.Millisecond)
			}
			runtime.ReadMemStats(&after)
			seconds := b.Elapsed().Seconds()
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/seconds, "allocs/s")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/seconds, "B/s")
		})
	}
}
