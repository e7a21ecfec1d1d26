package godwit

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestATransportThatFailsRestsLongerEachTime(t *testing.T) {
	var p preference
	home, street := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")
	now := time.Unix(1_000_000, 0)
	if p.rests(now, home) {
		t.Error("it rests before any failure")
	}
	for _, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		want *= time.Minute
		p.failed(now, home)
		p.failed(now.Add(time.Minute), home) // of another session, which is no news
		if !p.rests(now.Add(want-1), home) || p.rests(now.Add(want), home) {
			t.Errorf("it does not rest %s", want)
		}
		now = now.Add(want)
	}
	p.failed(now, home)
	if p.rests(now, street) {
		t.Error("it rests in another network")
	}
	p.failed(now, street)
	if !p.rests(now.Add(5*time.Minute-1), street) || p.rests(now.Add(5*time.Minute), street) {
		t.Error("failures of the network before count")
	}
	p.failed(now.Add(5*time.Minute), street)
	p.forget()
	if p.rests(now.Add(5*time.Minute), street) {
		t.Error("it rests although it works")
	}
}

// mute is a link on which the server says nothing.
type mute struct {
	err  error
	gone chan struct{}
}

func (m *mute) Send(...[]byte) error           { return nil }
func (m *mute) Receive() ([]byte, error)       { <-m.gone; return nil, m.err }
func (m *mute) Finish()                        {}
func (m *mute) Abort()                         { close(m.gone) }
func (m *mute) Move(ctx context.Context) error { return ctx.Err() }

// fallen is a client of a transport in a world with WebSockets.
func fallen(t *testing.T, up *bool, dial func() (Link, error)) (c *Client, tries *int) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !*up {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_, _, _ = ws.Read(r.Context())
		_ = ws.CloseNow()
	}))
	t.Cleanup(s.Close)
	tries = new(int)
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	c, err := New(strings.Replace(s.URL, "https", "test", 1), WithRootCAs(roots), WithTransport("test", func(context.Context, LinkOptions) (Link, error) {
		*tries++
		return dial()
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, tries
}

// connects opens a connection and closes it.
func connects(t *testing.T, c *Client) {
	t.Helper()
	got, err := c.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := got.(*wsConn); !ok {
		t.Errorf("the connection is a %T, want a WebSocket", got)
	}
	got.abort()
}

func TestAWebSocketIsUsedWithoutAskingWhereATransportHasFailed(t *testing.T) {
	for _, failure := range []error{ErrBlocked, errors.New("the server is full"), &LinkClosedError{Code: 1013, Reason: "full"}} {
		up := true
		c, tries := fallen(t, &up, func() (Link, error) { return nil, failure })
		for range 3 {
			connects(t, c)
		}
		if *tries != 1 {
			t.Errorf("%v: it was tried %d times", failure, *tries)
		}
		if err := c.NetworkChanged(t.Context()); err != nil {
			t.Error(err)
		}
		if connects(t, c); *tries != 2 {
			t.Errorf("%v: after a change of the network it was tried %d times", failure, *tries)
		}
	}
}

func TestATransportIsNotBlamedForAServerThatIsAway(t *testing.T) {
	up := false
	c, tries := fallen(t, &up, func() (Link, error) { return nil, ErrBlocked })
	for range 2 {
		if _, err := c.dial(t.Context()); err == nil {
			t.Fatal("a connection to nobody")
		}
	}
	if *tries != 2 {
		t.Errorf("it was tried %d times", *tries)
	}
}

func TestARefusalIsFinalOverATransportToo(t *testing.T) {
	up := true
	c, _ := fallen(t, &up, func() (Link, error) { return nil, &LinkClosedError{Code: policyViolation, Reason: "status 403"} })
	var refused *RefusedError
	if _, err := c.dial(t.Context()); !errors.As(err, &refused) {
		t.Errorf("the error is %v", err)
	}
}

func TestALinkOnWhichNothingComesCountsAsAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		rests  bool
		broken bool // by the network, not by the program
	}{
		"lost before a frame":      {errors.New("idle timeout"), true, true},
		"closed by the server":     {&LinkClosedError{Code: 1013, Reason: "full"}, false, true},
		"left soon by its program": {errors.New("aborted"), false, false},
	} {
		up := true
		m := &mute{err: c.err, gone: make(chan struct{})}
		client, tries := fallen(t, &up, func() (Link, error) { return m, nil })
		link, err := client.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.broken {
			close(m.gone)
			if _, err := link.recv(); err == nil {
				t.Fatal("a frame came")
			}
		} else {
			link.abort()
		}
		if rests := client.prefer.rests(time.Now(), link.(*linkConn).from); rests != c.rests || *tries != 1 {
			t.Errorf("%s: it rests: %t", name, rests)
		}
	}
}
