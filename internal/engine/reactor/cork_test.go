package reactor

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// corked serves one connection and returns it after the client's first bytes, outside the handler's callbacks.
func corked(t *testing.T, h *harness) (*Conn, io.Reader) {
	t.Helper()
	conns, spoke := make(chan *Conn, 1), make(chan bool, 1)
	addr := h.handle(func(c *Conn) Handler {
		f := newFake()
		f.data = func(b []byte) (int, error) { spoke <- true; return len(b), nil }
		conns <- c
		return f
	})
	client := h.dial(addr)
	if _, err := client.Write([]byte("go")); err != nil {
		t.Fatal(err)
	}
	wait(t, spoke, "what the client says")
	return wait(t, conns, "the connection"), client
}

func TestCorkedWritesWaitAndLeaveInOrder(t *testing.T) {
	eachDriver(t, Config{Loops: 1}, func(t *testing.T, h *harness) {
		c, client := corked(t, h)
		c.Cork()
		c.Cork()
		c.Write([]byte("a"), []byte("b"))
		c.Uncork()
		c.Write([]byte("c"), nil)
		if n := c.Queued(); n < 3 {
			t.Errorf("%d bytes wait while the connection is corked, want all 3", n)
		}
		c.Uncork()
		// No further write follows: while the loop handles the client's bytes, which is a cork, too, the bytes still wait.
		if got := readFull(t, client, 3); string(got) != "abc" {
			t.Errorf("the client got %q, want abc", got)
		}
		c.Write([]byte("d"), nil)
		if got := readFull(t, client, 1); string(got) != "d" {
			t.Errorf("the client got %q, want d", got)
		}
	})
}

// TestCorkHoldsLittle writes more than a cork holds, in small and large pieces, one of them larger than the cork.
func TestCorkHoldsLittle(t *testing.T) {
	eachDriver(t, Config{Loops: 1}, func(t *testing.T, h *harness) {
		c, client := corked(t, h)
		var want []byte
		c.Cork()
		for i, n := range []int{10, corkSize - 5, 1, corkSize, 2 * corkSize, 3, corkSize - 3, 7} {
			p := bytes.Repeat([]byte{'a' + byte(i)}, n)
			want = append(want, p...)
			if !c.Write(nil, p) {
				t.Fatalf("a write of %d bytes was refused", n)
			}
		}
		c.Uncork()
		if got := readFull(t, client, len(want)); !bytes.Equal(got, want) {
			t.Error("what was written corked arrived changed")
		}
	})
}

// TestCorkedBytesSurviveTheEnd ends connections while they are corked: bytes written before are sent.
func TestCorkedBytesSurviveTheEnd(t *testing.T) {
	for name, end := range map[string]func(c *Conn){
		"close": func(c *Conn) { c.CloseAfterFlush(nil) },
		"abort": func(c *Conn) { c.Abort(errors.New("enough")) },
	} {
		t.Run(name, func(t *testing.T) {
			eachDriver(t, Config{Loops: 1}, func(t *testing.T, h *harness) {
				c, client := corked(t, h)
				c.Cork()
				c.Write([]byte("farewell"), nil)
				end(c)
				c.Uncork()
				if got := readFull(t, client, 8); string(got) != "farewell" {
					t.Errorf("the client got %q", got)
				}
				if n, err := client.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("after the end: %d bytes, %v", n, err)
				}
			})
		})
	}
}

// TestWritesOfACallbackLeaveTogether counts the segments of the handler's answers to one read: it is one, if the kernel does not split a
// write.
func TestWritesOfACallbackLeaveTogether(t *testing.T) {
	eachDriver(t, Config{Loops: 1}, func(t *testing.T, h *harness) {
		waiting := make(chan int, 1)
		addr := h.handle(func(c *Conn) Handler {
			f := newFake()
			f.data = func(b []byte) (int, error) {
				c.Write([]byte("x"), nil)
				c.Write([]byte("y"), nil)
				waiting <- c.Queued()
				return len(b), nil
			}
			return f
		})
		client := h.dial(addr)
		if _, err := client.Write([]byte("go")); err != nil {
			t.Fatal(err)
		}
		if n := wait(t, waiting, "the callback"); n < 2 {
			t.Errorf("%d bytes wait within a callback that wrote two", n)
		}
		if got := readFull(t, client, 2); string(got) != "xy" {
			t.Errorf("the client got %q, want xy", got)
		}
	})
}

// BenchmarkWriteCorked sends fifty small frames to one client in one system call, as after a hello.
func BenchmarkWriteCorked(b *testing.B) {
	c, peer := connected(b, newFake())
	go func() { _, _ = io.Copy(io.Discard, peer) }()
	tail := make([]byte, 24)
	b.ReportAllocs()
	for b.Loop() {
		c.Cork()
		for range 50 {
			c.Write(nil, tail)
		}
		c.Uncork()
	}
}
