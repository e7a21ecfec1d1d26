package reactor

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/thorough"
)

func TestClosedComesExactlyOnce(t *testing.T) {
	wrong := errors.New("wrong")
	ends := []struct {
		name string
		end  func(c *Conn, peer net.Conn)
		want func(error) bool
	}{
		{"peer closes", func(_ *Conn, p net.Conn) { p.Close() }, func(err error) bool { return errors.Is(err, io.EOF) }},
		{"peer resets", func(_ *Conn, p net.Conn) {
			if s, ok := p.(interface{ NetConn() net.Conn }); ok {
				p = s.NetConn()
			}
			_ = p.(*net.TCPConn).SetLinger(0)
			p.Close()
		}, func(err error) bool { return err != nil }},
		{"handler fails", func(_ *Conn, p net.Conn) { _, _ = p.Write([]byte("fail")) }, func(err error) bool { return errors.Is(err, wrong) }},
		{"abort", func(c *Conn, _ net.Conn) { c.Abort(wrong) }, func(err error) bool { return errors.Is(err, wrong) }},
		{"flush and close", func(c *Conn, p net.Conn) { c.CloseAfterFlush(wrong); _, _ = io.Copy(io.Discard, p); p.Close() }, func(err error) bool { return errors.Is(err, wrong) }},
		{"all at once", func(c *Conn, p net.Conn) {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() { c.Abort(wrong) })
				wg.Go(func() { c.CloseAfterFlush(wrong) })
				wg.Go(func() { c.Write([]byte("x"), nil); c.SetTimer(time.Millisecond); c.Pause(); c.Resume() })
			}
			p.Close()
			wg.Wait()
		}, func(err error) bool { return err != nil }},
	}
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			eachDriver(t, Config{}, func(t *testing.T, h *harness) {
				conns := make(chan *Conn, 1)
				f := newFake()
				f.data = func(b []byte) (int, error) {
					if string(b) == "fail" {
						return 0, wrong
					}
					return len(b), nil
				}
				addr := h.handle(func(c *Conn) Handler { conns <- c; return f })
				peer := h.dial(addr)
				c := wait(t, conns, "the connection")
				e.end(c, peer)
				if err := wait(t, f.closed, "Closed"); !e.want(err) {
					t.Errorf("closed because of %v", err)
				}
				c.Abort(wrong)
				c.CloseAfterFlush(wrong)
				c.SetTimer(time.Nanosecond)
				if err := h.r.Close(); err != nil { // waits for every loop
					t.Fatal(err)
				}
				if len(f.closed) != 0 {
					t.Error("Closed came twice")
				}
			})
		})
	}
}

func TestRefusedConnectionIsClosedWithoutAHandler(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		addr, _ := h.serve(Limits{}, func(*Conn) (Handler, error) { return nil, errors.New("not you") })
		if n, err := h.dial(addr).Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("read %d bytes, %v; want the connection to be closed", n, err)
		}
	})
}

// TestGoodbyeArrivesAlthoughThePeerKeepsSending: a reset would destroy the goodbye if the socket were closed with unread input.
func TestGoodbyeArrivesAlthoughThePeerKeepsSending(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		f := newFake()
		addr := h.handle(func(c *Conn) Handler {
			f.data = func([]byte) (int, error) {
				c.Write([]byte("goodbye"), nil)
				c.CloseAfterFlush(nil)
				return 0, nil
			}
			return f
		})
		peer := h.dial(addr)
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 200 {
				if _, err := peer.Write(make([]byte, 10_000)); err != nil {
					return
				}
			}
		})
		got, err := io.ReadAll(peer)
		if string(got) != "goodbye" || err != nil {
			t.Errorf("got %q, %v; want the goodbye and a clean end", got, err)
		}
		wg.Wait()
		peer.Close()
		wait(t, f.closed, "Closed")
	})
}

func TestPatienceWithAClosingPeerEnds(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		h.r.linger = 100 * time.Millisecond
		done := errors.New("done")
		f := newFake()
		addr := h.handle(func(c *Conn) Handler { c.CloseAfterFlush(done); return f })
		h.dial(addr) // stays open
		if err := wait(t, f.closed, "Closed"); !errors.Is(err, done) {
			t.Errorf("closed because of %v", err)
		}
	})
}

func TestPausedHandlerGetsTheRestOnResume(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		conns, lines := make(chan *Conn, 1), make(chan string, 100)
		f := newFake()
		addr := h.handle(func(c *Conn) Handler {
			f.data = func(b []byte) (int, error) { // one letter, then a pause
				c.Pause()
				lines <- string(b[:1])
				return 1, nil
			}
			conns <- c
			return f
		})
		peer := h.dial(addr)
		if _, err := peer.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		c := wait(t, conns, "the connection")
		for i, want := range "abcdef" {
			if got := wait(t, lines, "a letter"); got != string(want) {
				t.Fatalf("got %q, want %q", got, string(want))
			}
			if i == 1 {
				if _, err := peer.Write([]byte("def")); err != nil {
					t.Fatal(err)
				}
			}
			if len(lines) != 0 {
				t.Fatal("a paused handler got input")
			}
			c.Resume()
		}
		peer.Close()
		wait(t, f.closed, "Closed")
	})
}

// TestTheEndComesAfterWhatWasSentBefore uses a handler that pauses after each letter, while the peer has already closed its side.
func TestTheEndComesAfterWhatWasSentBefore(t *testing.T) {
	for _, d := range drivers() {
		t.Run(d, func(t *testing.T) {
			h := newHarness(t, Config{Driver: d}, false)
			conns, letters := make(chan *Conn, 1), make(chan string, 100)
			f := newFake()
			addr := h.handle(func(c *Conn) Handler {
				f.data = func(b []byte) (int, error) {
					c.Pause()
					letters <- string(b[:1])
					return 1, nil
				}
				conns <- c
				return f
			})
			const sent = "abcdefghij"
			peer := h.dial(addr)
			if _, err := peer.Write([]byte(sent)); err != nil {
				t.Fatal(err)
			}
			if err := peer.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			c := wait(t, conns, "the connection")
			for _, want := range sent {
				if got := wait(t, letters, "a letter"); got != string(want) {
					t.Fatalf("got %q, want %q", got, string(want))
				}
				c.Write([]byte("!"), nil)
				c.Resume()
			}
			readFull(t, peer, len(sent))
			if err := wait(t, f.closed, "Closed"); !errors.Is(err, io.EOF) {
				t.Errorf("closed because of %v, want io.EOF", err)
			}
		})
	}
}

// TestPauseFromOutsideHoldsInputBack pauses a connection that is already waiting for input.
func TestPauseFromOutsideHoldsInputBack(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		conns, got, ticks := make(chan *Conn, 1), make(chan string, 10), make(chan bool, 1)
		f := newFake()
		f.tick = func(time.Time) { ticks <- true }
		f.data = func(b []byte) (int, error) { got <- string(b); return len(b), nil }
		addr := h.handle(func(c *Conn) Handler { conns <- c; return f })
		peer := h.dial(addr)
		c := wait(t, conns, "the connection")
		for _, msg := range []string{"one", "two"} { // in the second round, the poller has been updated for the pause
			c.Pause()
			if _, err := peer.Write([]byte(msg)); err != nil {
				t.Fatal(err)
			}
			c.SetTimer(100 * time.Millisecond)
			wait(t, ticks, "the tick")
			if len(got) != 0 {
				t.Fatalf("a paused handler got %q", <-got)
			}
			c.Resume()
			if s := wait(t, got, "the input"); s != msg {
				t.Fatalf("got %q, want %q", s, msg)
			}
		}
	})
}

func TestLongFrameIsKeptUpToTheLimit(t *testing.T) {
	eachDriver(t, Config{InputBytes: 300_000}, func(t *testing.T, h *harness) {
		const frame = 290_000
		sums := make(chan int, 1)
		f := newFake()
		f.data = func(b []byte) (int, error) { // frames are whole or nothing
			if len(b) < frame {
				return 0, nil
			}
			sum := 0
			for _, x := range b[:frame] {
				sum += int(x)
			}
			sums <- sum
			f.data = func([]byte) (int, error) { return 0, nil }
			return frame, nil
		}
		peer := h.dial(h.handle(func(*Conn) Handler { return f }))
		b, want := make([]byte, frame), 0
		for i := range b {
			b[i] = byte(i)
			want += int(b[i])
		}
		if _, err := peer.Write(b); err != nil {
			t.Fatal(err)
		}
		if got := wait(t, sums, "the frame"); got != want {
			t.Errorf("the frame's sum is %d, want %d", got, want)
		}
		_, _ = peer.Write(make([]byte, 320_000))
		if err := wait(t, f.closed, "Closed"); !errors.Is(err, ErrInputTooLong) {
			t.Errorf("closed because of %v, want %v", err, ErrInputTooLong)
		}
	})
}

func TestTimerTicksOnceAndMayBeReplaced(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		conns, ticks := make(chan *Conn, 1), make(chan time.Time, 10)
		f := newFake()
		var c *Conn
		f.tick = func(now time.Time) {
			if len(conns) > 0 { // only the first time: until then, no tick can occur
				<-conns
				c.SetTimer(time.Nanosecond)
				c.SetTimer(0)
				c.SetTimer(time.Nanosecond)
			}
			ticks <- now
		}
		made := make(chan bool, 1)
		addr := h.handle(func(of *Conn) Handler {
			of.SetTimer(time.Hour)
			c = of
			conns <- of
			made <- true
			return f
		})
		h.dial(addr)
		wait(t, made, "the connection")
		set := time.Now()
		c.SetTimer(120 * time.Millisecond)
		if now := wait(t, ticks, "the tick"); now.Sub(set) < 120*time.Millisecond {
			t.Errorf("the tick came after %s", now.Sub(set))
		}
		wait(t, ticks, "the second tick")
		if len(ticks) != 0 {
			t.Error("a replaced timer ticked too")
		}
	})
}

func TestServeEndsWhileConnectionsGoOn(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		conns := make(chan *Conn, 1)
		addr, stop := h.serve(Limits{}, func(c *Conn) (Handler, error) { conns <- c; return echo(c), nil })
		peer := h.dial(addr)
		c := wait(t, conns, "the connection")
		stop()
		if nc, err := net.Dial("tcp", addr); err == nil {
			nc.Close()
			t.Error("the listener is still open")
		}
		if _, err := peer.Write([]byte("still here")); err != nil {
			t.Fatal(err)
		}
		if got := readFull(t, peer, 10); string(got) != "still here" {
			t.Errorf("got %q", got)
		}
		short, cancel := context.WithCancel(t.Context())
		cancel()
		if h.r.Drain(short) == nil {
			t.Error("Drain does not see the connection")
		}
		c.CloseAfterFlush(nil)
		_, _ = io.Copy(io.Discard, peer)
		peer.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := h.r.Drain(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestListenerLimits(t *testing.T) {
	closed := func(t *testing.T, c net.Conn) {
		t.Helper()
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("read %d bytes, %v; want the connection to be closed", n, err)
		}
	}
	raw := func(t *testing.T, addr string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		return c
	}
	t.Run("connections", func(t *testing.T) {
		eachDriver(t, Config{}, func(t *testing.T, h *harness) {
			opened := make(chan *fake, 3)
			var open atomic.Int64
			left := make(chan struct{}, 3)
			lim := Limits{Admit: func(netip.Addr) (func(), bool) {
				if open.Add(1) > 2 {
					open.Add(-1)
					return nil, false
				}
				return func() { open.Add(-1); left <- struct{}{} }, true
			}}
			addr, _ := h.serve(lim, func(*Conn) (Handler, error) { f := newFake(); opened <- f; return f, nil })
			a, _ := h.dial(addr), h.dial(addr)
			first := wait(t, opened, "a connection")
			second := wait(t, opened, "a connection")
			closed(t, raw(t, addr))
			a.Close()
			select { // either may be a's connection
			case <-first.closed:
			case <-second.closed:
			case <-time.After(patience):
				t.Fatal("no connection was closed")
			}
			wait(t, left, "the closed connection's place")
			h.dial(addr)
			wait(t, opened, "a connection in the place that became free")
		})
	})
	t.Run("admission", func(t *testing.T) {
		eachDriver(t, Config{}, func(t *testing.T, h *harness) {
			asked := make(chan netip.Addr, 1)
			lim := Limits{Admit: func(a netip.Addr) (func(), bool) { asked <- a; return nil, false }}
			addr, _ := h.serve(lim, func(*Conn) (Handler, error) { t.Error("opened"); return newFake(), nil })
			closed(t, raw(t, addr))
			if a := wait(t, asked, "Admit"); a != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("asked about %s", a)
			}
		})
	})
	t.Run("first byte", func(t *testing.T) {
		eachDriver(t, Config{}, func(t *testing.T, h *harness) {
			f := newFake()
			addr, _ := h.serve(Limits{Handshake: 200 * time.Millisecond}, func(*Conn) (Handler, error) { return f, nil })
			closed(t, raw(t, addr)) // over TLS, the connection is closed before the handshake
			if !h.secure {
				if err := wait(t, f.closed, "Closed"); !errors.Is(err, ErrFirstByte) {
					t.Errorf("closed because of %v", err)
				}
			}
		})
	})
	t.Run("silence after the first byte is allowed", func(t *testing.T) {
		eachDriver(t, Config{}, func(t *testing.T, h *harness) {
			f, limits := newFake(), make(chan int64, 2)
			addr, _ := h.serve(Limits{}, func(c *Conn) (Handler, error) {
				look := func() {
					c.mu.Lock()
					defer c.mu.Unlock()
					limits <- c.limitAt
				}
				c.SetTimer(time.Nanosecond)
				f.tick = func(time.Time) { look() }
				f.data = func(b []byte) (int, error) { look(); return len(b), nil }
				return f, nil
			})
			peer := h.dial(addr)
			if wait(t, limits, "the tick") == 0 {
				t.Error("a silent peer may stay for ever")
			}
			if _, err := peer.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if wait(t, limits, "the first byte") != 0 {
				t.Error("a peer that has spoken still has to hurry")
			}
		})
	})
}

// TestEventsNeverReachAnotherConnection opens and closes connections as fast as possible, so that descriptors are reused at once, while
// others send: no handler may receive another connection's bytes.
func TestEventsNeverReachAnotherConnection(t *testing.T) {
	eachDriver(t, Config{Loops: 2}, func(t *testing.T, h *harness) {
		rounds := thorough.Rounds(40, 150)
		if h.secure {
			rounds /= 5
		}
		addr := h.handle(func(c *Conn) Handler {
			f, id := newFake(), []byte(nil)
			f.data = func(b []byte) (int, error) {
				n := len(b) &^ 3
				for w := range slices.Chunk(b[:n], 4) {
					if id == nil {
						id = slices.Clone(w)
					}
					if !slices.Equal(id, w) {
						t.Errorf("connection %x got bytes of %x", id, w)
					}
				}
				c.Write(b[:n], nil)
				if rand.IntN(8) == 0 {
					c.Abort(nil)
				}
				return n, nil
			}
			return f
		})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range rounds {
					c := h.dial(addr)
					id := binary.BigEndian.AppendUint32(nil, uint32(g<<16|i))
					for range 1 + rand.IntN(5) {
						if _, err := c.Write(slices.Concat(id, id)); err != nil {
							break
						}
						if got := make([]byte, 4); rand.IntN(2) == 0 {
							if _, err := io.ReadFull(c, got); err == nil && !slices.Equal(got, id) {
								t.Errorf("client %x got bytes of %x", id, got)
							}
						}
					}
					c.Close()
				}
			})
		}
		wg.Wait()
	})
}
