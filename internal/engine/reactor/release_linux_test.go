package reactor

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// counted is a connection that occupies a place in the count until it is closed.
type counted struct {
	*net.TCPConn
	leave func()
}

func (c *counted) Handover() func() { return c.leave }

// TestAReleasedConnectionLosesNothing releases a connection from within Data, at the end of the peer's input and on a timer: the new
// owner reads the unused bytes and all further ones, and the connection counts until the new owner closes it.
func TestAReleasedConnectionLosesNothing(t *testing.T) {
	for name, release := range map[string]func(f *fake, c *Conn, give func([]byte)){
		"in data": func(f *fake, _ *Conn, give func([]byte)) {
			f.data = func(b []byte) (int, error) { give(b); return len(b), nil }
		},
		"by the clock": func(f *fake, c *Conn, give func([]byte)) {
			f.data = func([]byte) (int, error) { c.SetTimer(time.Millisecond); return 0, nil }
			f.tick = func(time.Time) { give(nil) }
		},
	} {
		for _, buffered := range []string{"", "first "} {
			t.Run(name+"/"+buffered, func(t *testing.T) {
				h := newHarness(t, Config{}, false)
				nc, peer := pair(t)
				left, out, f := make(chan bool, 2), make(chan net.Conn, 1), newFake()
				err := h.r.Adopt(&counted{nc, func() { left <- true }}, []byte(buffered), func(c *Conn) Handler {
					release(f, c, func(b []byte) {
						nc, err := c.Release(b)
						if err != nil {
							t.Error(err)
						}
						out <- nc
					})
					return f
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(peer, "one "); err != nil {
					t.Fatal(err)
				}
				got := wait(t, out, "the connection")
				if n := h.r.Stats().Connections; n != 0 {
					t.Errorf("the reactor counts %d connections", n)
				}
				if _, err := io.WriteString(peer, "two"); err != nil {
					t.Fatal(err)
				}
				_ = peer.CloseWrite()
				all, err := io.ReadAll(got)
				if err != nil || string(all) != buffered+"one two" {
					t.Errorf("read %q, %v", all, err)
				}
				if len(left) != 0 {
					t.Error("counted out before it was closed")
				}
				_ = got.Close()
				_ = got.Close()
				wait(t, left, "counting out")
				if len(left) != 0 || len(f.closed) != 0 {
					t.Error("counted out twice, or the handler was told")
				}
			})
		}
	}
}

// TestAReleasedConnectionMayBeAdoptedAgain also checks that the new handler gets the unread bytes.
func TestAReleasedConnectionMayBeAdoptedAgain(t *testing.T) {
	h := newHarness(t, Config{}, false)
	nc, peer := pair(t)
	out, f := make(chan net.Conn, 1), newFake()
	if err := h.r.Adopt(nc, nil, func(c *Conn) Handler {
		f.data = func(b []byte) (int, error) {
			nc, err := c.Release(b)
			if err != nil {
				t.Error(err)
			}
			out <- nc
			return len(b), nil
		}
		return f
	}); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0123456789", 1000)
	if _, err := io.WriteString(peer, text[:5000]); err != nil {
		t.Fatal(err)
	}
	released := wait(t, out, "the connection")
	head := make([]byte, 10)
	if _, err := io.ReadFull(released, head); err != nil {
		t.Fatal(err)
	}
	if err := h.r.Adopt(released, head, func(c *Conn) Handler { return echo(c) }); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(peer, text[5000:]); err != nil {
		t.Fatal(err)
	}
	if got := string(readFull(t, peer, len(text))); got != text {
		t.Errorf("got %q", short(got))
	}
}

func TestAConnectionWithAQueueIsNotReleased(t *testing.T) {
	h := newHarness(t, Config{}, false)
	refused := make(chan error, 1)
	addr := h.handle(func(c *Conn) Handler {
		f := newFake()
		f.data = func(b []byte) (int, error) {
			c.Write(nil, make([]byte, 64<<20))
			_, err := c.Release(b)
			refused <- err
			return len(b), errors.New("over")
		}
		return f
	})
	peer := h.dial(addr, smallWindow)
	if _, err := peer.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	if wait(t, refused, "the attempt") == nil {
		t.Error("it was released with a queue")
	}
}

// pair returns both ends of a connection.
func pair(t *testing.T) (nc, peer *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), p.(*net.TCPConn)
}
