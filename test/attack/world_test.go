package attack

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/test/blackbox"
)

// stranger is the attacker's address; loopback has many addresses.
const stranger = "127.0.0.66"

// dialFrom connects from an address of loopback.
func dialFrom(ctx context.Context, from, to string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: blackbox.Patience}
	return d.DialContext(ctx, "tcp", to)
}

// startTLS starts a server with TLS.
func startTLS(t *testing.T, options ...blackbox.Option) *blackbox.Server {
	t.Helper()
	cert, key, _ := certstest.Issue(t, t.TempDir(), "attacked")
	s := blackbox.New(t, append(options, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--tls-cert", cert, "--tls-key", key))...)
	if err := s.Spawn(); err != nil {
		t.Fatal(err)
	}
	listening(t, s)
	return s
}

// listening waits until a spawned server listens.
func listening(t *testing.T, s *blackbox.Server) {
	t.Helper()
	blackbox.Eventually(t, "the server listens", func() error {
		at, err := s.Addresses()
		if err == nil {
			s.HTTP, s.GRPC = at.HTTP, at.GRPC
		}
		return err
	})
}

// held counts the connections of an attacker that the server has not closed.
type held struct {
	secure bool // the sent bytes also read from the connection
	open   atomic.Int64
	tried  atomic.Int64
	mu     sync.Mutex
	conns  []net.Conn
	wg     sync.WaitGroup
}

// hold connects, sends say's bytes, and tracks the connection until it ends.
func (h *held) hold(ctx context.Context, to string, say func(c net.Conn)) {
	h.tried.Add(1)
	c, err := dialFrom(ctx, stranger, to)
	if err != nil {
		return
	}
	h.mu.Lock()
	h.conns = append(h.conns, c)
	h.mu.Unlock()
	h.open.Add(1)
	h.wg.Go(func() {
		if say == nil {
			say = func(net.Conn) {}
		}
		var talk sync.WaitGroup
		talk.Go(func() { say(c) })
		if !h.secure {
			_, _ = io.Copy(io.Discard, c) // until it ends
		}
		talk.Wait()
		h.open.Add(-1)
		c.Close()
	})
}

func (h *held) close() {
	h.mu.Lock()
	for _, c := range h.conns {
		c.Close()
	}
	h.mu.Unlock()
	h.wg.Wait()
}

// came returns how many connections have been established so far.
func (h *held) came() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

// flood opens perSecond connections a second until the returned stop is called.
func (h *held) flood(ctx context.Context, to string, perSecond int, say func(c net.Conn)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		begun := time.Now()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for due := int64(time.Since(begun).Seconds() * float64(perSecond)); h.tried.Load() < due && ctx.Err() == nil; {
				h.hold(ctx, to, say)
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// visit publishes on a connection of its own and returns how long that took. The error tells what was refused.
func visit(ctx context.Context, server *blackbox.Server, n string) (time.Duration, error) {
	begun := time.Now()
	api := server.API()
	api.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: blackbox.Patience}
	err := api.Publish(ctx, map[string]any{"to": "driver-1", "id": n, "title": "hello"})
	return time.Since(begun), err
}

// visits visits repeatedly for a while and fails the test if a visit is refused.
func visits(t *testing.T, server *blackbox.Server, name string, n int) (took []time.Duration) {
	t.Helper()
	for i := range n {
		d, err := visit(t.Context(), server, fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			t.Fatalf("visit %d beside the attack: %v", i, err)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	return took
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(float64(len(sorted))*q), len(sorted)-1)]
}

// descriptors counts the open descriptors of a process.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		blackbox.Skip(t, "no /proc: %v", err)
	}
	return len(list)
}

// limited starts the server with a limit on its descriptors.
func limited(t *testing.T, files int) blackbox.Option {
	t.Helper()
	script := filepath.Join(t.TempDir(), "godwit")
	text := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec '%s' \"$@\"\n", files, blackbox.Binary(t, false))
	blackbox.WriteProgram(t, script, []byte(text))
	return blackbox.Program(script)
}

// drip sends text byte by byte, one every pace, and then repeats the last byte endlessly.
func drip(pace time.Duration, text string) func(c net.Conn) {
	return func(c net.Conn) {
		for i := 0; ; i++ {
			if _, err := c.Write([]byte{text[min(i, len(text)-1)]}); err != nil {
				return
			}
			time.Sleep(pace)
		}
	}
}

func say(text string) func(c net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) } // a refused connection sends nothing
}

// then sends first, then second.
func then(first, second func(c net.Conn)) func(c net.Conn) {
	return func(c net.Conn) { first(c); second(c) }
}

// The beginnings of a request and of a ClientHello, and hand-written HTTP/2 frames with which a client begins.
const (
	request  = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	hello    = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	headless = "\x00\x10\x00\x01\x00\x00\x00\x00\x01\x82"     // the first HEADERS frame, of 4096 bytes
	ping     = "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678" // PING
	upgrade  = "GET /v1/connect?recipient=a HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)

// pings sends PING frames, one after the other.
func pings(c net.Conn) {
	for {
		if _, err := io.WriteString(c, ping); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// overTLS makes a TLS handshake, sends say's bytes, and reads until the connection ends.
func overTLS(t *testing.T, proto string, say func(c net.Conn)) func(c net.Conn) {
	return func(c net.Conn) {
		s := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}})
		if err := s.HandshakeContext(t.Context()); err != nil {
			t.Errorf("TLS handshake: %v", err)
			return
		}
		var talk sync.WaitGroup
		talk.Go(func() { say(s) })
		_, _ = io.Copy(io.Discard, s)
		talk.Wait()
	}
}

// metric reads one of the server's metrics.
func metric(t *testing.T, server *blackbox.Server, name string) string {
	t.Helper()
	return metricOf(t, server.API(), name)
}

func metricOf(t *testing.T, api *blackbox.API, name string) string {
	t.Helper()
	a, err := api.Do(t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(a.Body)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatalf("there is no metric %s", name)
	return ""
}

// number returns the value of a metric that counts something.
func number(t *testing.T, server *blackbox.Server, name string) int {
	t.Helper()
	return numberOf(t, server.API(), name)
}

func numberOf(t *testing.T, api *blackbox.API, name string) int {
	t.Helper()
	n, err := strconv.Atoi(metricOf(t, api, name))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// atLeast fails below a goal.
func atLeast(n, goal int) error {
	if n < goal {
		return fmt.Errorf("%d, not %d", n, goal)
	}
	return nil
}
