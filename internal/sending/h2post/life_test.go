package h2post

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

func TestASilentServerIsAskedAndThenLeft(t *testing.T) {
	pings := 0
	serve := func(p *peer) {
		p.greet()
		p.next(nil)
		p.next(func(f http2.Frame) {
			if f, ok := f.(*http2.PingFrame); ok {
				if pings++; pings == 1 {
					p.check(p.fr.WritePing(true, f.Data)) // once more it lives
				}
			}
		})
	}
	inBubble(t, serve, func(c *Config) { c.Silence = 6 * time.Second }, func(t *testing.T, c *Client) {
		begun := time.Now()
		_, sent, err := post(t, c, message("127.0.0.1:443", "m"))
		if err == nil || !sent || !strings.Contains(err.Error(), "silent") {
			t.Errorf("sent %t, %v", sent, err)
		}
		synctest.Wait()
		if took := time.Since(begun); pings != 2 || took < 18*time.Second || took > 22*time.Second {
			t.Errorf("it was asked %d times in %s", pings, took)
		}
	})
}

func TestUnusedConnectionsAreClosed(t *testing.T) {
	var closed atomic.Int32
	serve := func(p *peer) {
		p.greet()
		alive := func(f http2.Frame) {
			if f, ok := f.(*http2.PingFrame); ok && !f.IsAck() {
				p.check(p.fr.WritePing(true, f.Data))
			}
		}
		for a := p.next(alive); a != nil; a = p.next(alive) {
			p.answer(a.id, http.StatusCreated)
		}
		closed.Add(1)
	}
	inBubble(t, serve, func(c *Config) { c.Silence, c.Idle = 20*time.Second, 30*time.Second }, func(t *testing.T, c *Client) {
		if _, _, err := post(t, c, message("127.0.0.1:443", "m")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if closed.Load() != 0 {
			t.Error("closed before its time")
		}
		time.Sleep(11 * time.Second) // a connection is checked twice in a period of silence
		synctest.Wait()
		if n := closed.Load(); n != 1 {
			t.Errorf("%d are closed", n)
		}
		// After Close the client still sends, but keeps no connection.
		_ = c.Close()
		if a, _, err := post(t, c, message("127.0.0.1:443", "m")); err != nil || a.Status != http.StatusCreated {
			t.Fatal(a, err)
		}
		synctest.Wait()
		if n := closed.Load(); n != 2 {
			t.Errorf("%d are closed after Close", n)
		}
	})
}

// stuck is a connection whose peer stops reading.
type stuck struct {
	net.Conn
	room  atomic.Int64 // bytes that still go through
	ended chan struct{}
	once  sync.Once
}

func (s *stuck) Write(b []byte) (int, error) {
	if s.room.Add(-int64(len(b))) < 0 {
		<-s.ended
		return 0, net.ErrClosed
	}
	return s.Conn.Write(b)
}

func (s *stuck) SetDeadline(t time.Time) error {
	if !t.IsZero() && t.Before(time.Now()) {
		s.once.Do(func() { close(s.ended) })
	}
	return s.Conn.SetDeadline(t)
}

func TestCloseWaitsForWhatServesConnections(t *testing.T) {
	address := script(t, func(p *peer) {
		p.greet()
		for a := p.next(nil); a != nil; a = p.next(nil) {
			p.answer(a.id, http.StatusCreated)
		}
	})
	closing := make(chan struct{}) // the socket is being closed
	goOn := make(chan struct{})    // it may be
	c := client(t, func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, address)
			return &slowClose{Conn: nc, closing: closing, goOn: goOn}, err
		}
	})
	if _, _, err := post(t, c, message(address, "m")); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		_ = c.Close()
		close(closed)
	}()
	<-closing
	select {
	case <-closed:
		t.Error("Close has returned while a connection was being closed")
	default:
	}
	close(goOn)
	<-closed
	if n := c.loops.n; n != 0 {
		t.Errorf("%d goroutines are left", n)
	}
}

func TestCloseLeavesNoConnectionThatNobodyWaitsForAnyMore(t *testing.T) {
	address := script(t, func(p *peer) {
		p.greet()
		p.next(nil)
	})
	dialed, goOn := make(chan struct{}), make(chan struct{})
	c := client(t, func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			close(dialed)
			<-goOn
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := c.Post(ctx, message(address, "m"))
		done <- err
	}()
	<-dialed
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	closed := make(chan struct{})
	go func() {
		_ = c.Close()
		close(closed)
	}()
	for !c.closed.Load() {
		runtime.Gosched()
	}
	close(goOn)
	<-closed
}

// slowClose is a connection that takes as long to close as a test wants.
type slowClose struct {
	net.Conn
	closing, goOn chan struct{}
}

func (c *slowClose) Close() error {
	close(c.closing)
	<-c.goOn
	return c.Conn.Close()
}

func TestServerThatDoesNotReadItsAnswersIsLeft(t *testing.T) {
	address := script(t, func(p *peer) {
		p.greet()
		p.next(nil)
		for p.fr.WritePing(false, [8]byte{}) == nil {
		}
	})
	c := client(t, func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := dial(ctx, network, address)
			s := &stuck{Conn: nc, ended: make(chan struct{})}
			s.room.Store(8 << 10)
			return s, err
		}
	})
	_, sent, err := post(t, c, message(address, "m"))
	if err == nil || !sent || !strings.Contains(err.Error(), "does not read") {
		t.Errorf("sent %t, %v", sent, err)
	}
}
