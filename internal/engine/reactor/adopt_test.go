package reactor

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// hijacking starts an http.Server that hijacks every request's connection and passes it to the reactor.
func (h *harness) hijacking(open func(*Conn) Handler) (addr string, adopted <-chan error) {
	h.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	results := make(chan error, 8)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			results <- err
			return
		}
		buffered, _ := rw.Reader.Peek(rw.Reader.Buffered())
		results <- h.r.Adopt(nc, buffered, open)
	})}
	wrapped := Listener(ln)
	if h.secure {
		conf := serverTLS(h.t)
		conf.NextProtos = []string{"http/1.1"}
		wrapped = tls.NewListener(wrapped, conf)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(wrapped) })
	h.t.Cleanup(func() { srv.Close(); wg.Wait() })
	return ln.Addr().String(), results
}

const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// TestAdoptedConnectionKeepsWhatWasRead sends a request followed by the first frames, at once and in parts: bytes that net/http or
// crypto/tls has read already are neither lost nor doubled.
func TestAdoptedConnectionKeepsWhatWasRead(t *testing.T) {
	long := strings.Repeat("0123456789", 30_000)
	for name, parts := range map[string][]string{
		"nothing buffered":           {request, "hello"},
		"in the request's packet":    {request + "hello"},
		"some before and some after": {request + "hel", "lo"},
		"more than one buffer":       {request + long},
		"request in two parts":       {request[:10], request[10:] + "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			eachDriver(t, Config{}, func(t *testing.T, h *harness) {
				peers := make(chan *Conn, 1)
				addr, adopted := h.hijacking(func(c *Conn) Handler {
					c.Write([]byte("welcome "), nil)
					peers <- c
					return echo(c)
				})
				peer := h.dial(addr)
				for _, p := range parts {
					if _, err := io.WriteString(peer, p); err != nil {
						t.Fatal(err)
					}
				}
				if err := wait(t, adopted, "Adopt"); err != nil {
					t.Fatal(err)
				}
				want := "welcome " + strings.TrimPrefix(strings.Join(parts, ""), request)
				if got := string(readFull(t, peer, len(want))); got != want {
					t.Errorf("got %q, want %q", short(got), short(want))
				}
				c := wait(t, peers, "the connection")
				if got := c.RemoteAddr().String(); got != peer.LocalAddr().String() {
					t.Errorf("remote address %s, want %s", got, peer.LocalAddr())
				}
				if (c.TLS() != nil) != h.secure {
					t.Errorf("TLS state is %v", c.TLS())
				}
				if s := c.TLS(); s != nil && s.NegotiatedProtocol != "" {
					t.Errorf("negotiated %q", s.NegotiatedProtocol)
				}
			})
		})
	}
}

func short(s string) string { return s[:min(len(s), 60)] }

func TestAdoptRefusesWhatItCannotDrive(t *testing.T) {
	for _, d := range drivers() {
		t.Run(d, func(t *testing.T) {
			h := newHarness(t, Config{Driver: d}, false)
			open := func(*Conn) Handler { t.Error("opened"); return newFake() }
			a, b := net.Pipe()
			if err := h.r.Adopt(a, nil, open); err == nil || !strings.Contains(err.Error(), "no descriptor") {
				t.Errorf("a pipe: %v", err)
			}
			if _, err := b.Write([]byte("x")); err == nil {
				t.Error("the refused connection is still open")
			}
			ln, err := tls.Listen("tcp", "127.0.0.1:0", serverTLS(t))
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			var wg sync.WaitGroup
			wg.Go(func() {
				c, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
				if err == nil {
					_, _ = io.Copy(io.Discard, c)
					c.Close()
				}
			})
			nc, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if err := nc.(*tls.Conn).HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := h.r.Adopt(nc, nil, open); err == nil || !strings.Contains(err.Error(), "reactor.Listener") {
				t.Errorf("TLS that cannot be switched: %v", err)
			}
			wg.Wait()
		})
	}
}

func TestAdoptAfterCloseClosesTheConnection(t *testing.T) {
	for _, d := range drivers() {
		t.Run(d, func(t *testing.T) {
			h := newHarness(t, Config{Driver: d}, false)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			peer := h.dial(ln.Addr().String())
			nc, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if err := h.r.Close(); err != nil {
				t.Fatal(err)
			}
			if err := h.r.Adopt(nc, nil, func(*Conn) Handler { t.Error("opened"); return newFake() }); !errors.Is(err, ErrReactorClosed) {
				t.Errorf("Adopt: %v, want %v", err, ErrReactorClosed)
			}
			if _, err := bufio.NewReader(peer).ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("the peer sees %v, want the end", err)
			}
		})
	}
}
