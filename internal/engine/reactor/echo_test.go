package reactor

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/testkit/thorough"
)

// echo returns every byte to the peer. While its writes are refused, it pauses input.
func echo(c *Conn) Handler {
	f := newFake()
	f.data = func(b []byte) (int, error) {
		if !c.Write(b, nil) {
			c.Pause()
			return 0, nil
		}
		return len(b), nil
	}
	f.drained = c.Resume
	return f
}

// TestEchoUnderLoad sends megabytes over many connections at once, in pieces of every size, and expects each byte back in order.
func TestEchoUnderLoad(t *testing.T) {
	eachDriver(t, Config{Loops: 2, QueueBytes: 64 << 10}, func(t *testing.T, h *harness) {
		addr := h.handle(echo)
		each := thorough.Rounds(512<<10, 2<<20)
		var wg sync.WaitGroup
		for i := range 16 {
			c := h.dial(addr)
			wg.Go(func() {
				exchange(t, c, uint64(i), 1) // the loop counts only what it reads itself, so not what comes with the handshake
				exchange(t, c, uint64(i), each)
			})
		}
		wg.Wait()
		if s, all := h.r.Stats(), uint64(16*each); s.BytesIn < all || s.BytesOut < all { // a positive number
			t.Errorf("counted %d bytes in and %d out, want at least %d", s.BytesIn, s.BytesOut, all)
		}
	})
}

// exchange writes n random bytes and compares them with the echo.
func exchange(t *testing.T, c net.Conn, seed uint64, n int) {
	source := rand.NewChaCha8([32]byte{byte(seed)})
	r := rand.New(source)
	sent := make([]byte, n)
	_, _ = source.Read(sent)
	var wg sync.WaitGroup
	wg.Go(func() {
		for b := sent; len(b) > 0; {
			k := min(1+r.IntN(70_000), len(b))
			if _, err := c.Write(b[:k]); err != nil {
				t.Errorf("write: %v", err)
				return
			}
			b = b[k:]
		}
	})
	got := make([]byte, n)
	if _, err := io.ReadFull(c, got); err != nil {
		t.Errorf("read: %v", err)
	}
	wg.Wait()
	if !bytes.Equal(got, sent) {
		t.Error("the echo differs from what was sent")
	}
}
