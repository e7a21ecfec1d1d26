package admission

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/server/problem"
)

// pipes is a listener whose connections the test makes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// from is a connection with a remote address.
type from struct {
	net.Conn
	addr *net.TCPAddr
	shut atomic.Bool
}

func (f *from) RemoteAddr() net.Addr { return f.addr }
func (f *from) Close() error         { f.shut.Store(true); return f.Conn.Close() }

// world is a gate before a listener, inside a synctest bubble.
type world struct {
	t     *testing.T
	gate  *Gate
	pipes *pipes
	ln    *listener
	conns *limit.Conns
	port  int
}

func inWorld(t *testing.T, perSecond float64, conns *limit.Conns, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, pipes: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}, conns: conns}
		w.gate = New(Config{Limit: limit.NewAddrs(perSecond, true), Conns: conns, Opening: func() {}})
		w.ln = w.gate.Listen(w.pipes).(*listener)
		f(w)
		if err := w.ln.Close(); err != nil {
			t.Error(err)
		}
		if n := conns.Open(); n != 0 {
			t.Errorf("%d connections are still counted", n)
		}
	})
}

// connect makes a connection from an address.
func (w *world) connect(addr string) *from {
	ours, theirs := net.Pipe()
	w.t.Cleanup(func() { theirs.Close() })
	w.port++
	c := &from{Conn: ours, addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(w.port)))} // a few thousand
	w.pipes.conns <- c
	synctest.Wait()
	return c
}

// accepted takes the connections that net/http would be given now.
func (w *world) accepted() (cs []*conn) {
	for {
		c, _, err := w.ln.next(time.Now())
		if err != nil {
			w.t.Fatal(err)
		}
		if c == nil {
			return cs
		}
		cs = append(cs, c.(*conn))
	}
}

func closeAll(cs ...[]*conn) {
	for _, list := range cs {
		for _, c := range list {
			_ = c.Close()
		}
	}
}

const (
	stranger = "192.0.2.66"
	good     = "192.0.2.1"
)

func TestOneAddressHasHalfOfTheFreshPlaces(t *testing.T) {
	inWorld(t, 0, limit.NewConns(1000, 1000, true), func(w *world) {
		for range 100 {
			w.connect(stranger)
		}
		theirs := w.accepted()
		w.connect(good)
		ours := w.accepted()
		if len(theirs) != mostFresh/2 || len(ours) != 1 || ours[0].RemoteAddr().(*net.TCPAddr).IP.String() != good {
			t.Fatalf("%d of the stranger are fresh, %d others were taken", len(theirs), len(ours))
		}
		closeAll(ours)
		state(theirs[3], http.StateIdle)
		state(theirs[4], http.StateHijacked)
		next := w.accepted()
		if len(next) != 2 {
			t.Errorf("%d were taken after two had gone on", len(next))
		}
		time.Sleep(freshFor)
		last := w.accepted()
		if len(last) != mostFresh/2 {
			t.Errorf("%d were taken after %s", len(last), freshFor)
		}
		closeAll(theirs, next, last)
	})
}

func TestStrangersAreRefusedBeforeTheyTakeAnything(t *testing.T) {
	inWorld(t, 1, limit.NewConns(1000, 1000, true), func(w *world) {
		var cs []*from
		for range 100 {
			cs = append(cs, w.connect(stranger))
		}
		open, told := 0, 0
		taken := w.accepted()
		for _, c := range taken {
			if c.refused != nil {
				told++
			}
		}
		for _, c := range cs {
			if !c.shut.Load() {
				open++
			}
		}
		// The burst allows the connections of four seconds; four more get an error response.
		if open != 8 || told != 4 || w.conns.Open() != 4 || w.gate.Refused(TooFast) != 96 {
			t.Errorf("%d are open, %d of them to be told, %d counted, %d refused", open, told, w.conns.Open(), w.gate.Refused(TooFast))
		}
		closeAll(taken)
	})
}

func TestOneAddressLeavesRoomForOthers(t *testing.T) {
	inWorld(t, 0, limit.NewConns(20, 5, true), func(w *world) {
		for range 30 {
			w.connect(stranger)
		}
		if n := w.conns.Open(); n != 5 {
			t.Errorf("the stranger has %d connections, want 5", n)
		}
		if w.connect(good).shut.Load() {
			t.Error("another address was refused")
		}
		if n := w.gate.Refused(TooMany); n != 25 {
			t.Errorf("%d were refused", n)
		}
		closeAll(w.accepted())
	})
}

func TestConnectionsWithoutRequestAreClosed(t *testing.T) {
	inWorld(t, 0, limit.NewConns(20, 20, true), func(w *world) {
		silent, spoken := w.connect(stranger), w.connect(good)
		cs := w.accepted()
		cs[1].begin()
		time.Sleep(Patience - time.Millisecond)
		if silent.shut.Load() {
			t.Error("closed before its time")
		}
		waits := w.connect(stranger) // not even looked at
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !silent.shut.Load() || spoken.shut.Load() || w.gate.Refused(Unspoken) != 1 {
			t.Errorf("closed are the silent one %t, the other %t; counted %d", silent.shut.Load(), spoken.shut.Load(), w.gate.Refused(Unspoken))
		}
		time.Sleep(Patience)
		synctest.Wait()
		if !waits.shut.Load() || len(w.accepted()) != 0 {
			t.Error("one that waited for its turn and closed is given out")
		}
		closeAll(cs)
	})
}

func TestAdoptedConnectionsAreCountedUntilTheyEnd(t *testing.T) {
	inWorld(t, 0, limit.NewConns(20, 20, true), func(w *world) {
		w.connect(good)
		c := w.accepted()[0]
		leave := c.Handover()
		if err := c.Close(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		if w.conns.Open() != 1 {
			t.Error("counted out when it moved")
		}
		leave()
	})
}

func TestConnectionsThatHaveSaidNothingEndWithTheListener(t *testing.T) {
	inWorld(t, 0, limit.NewConns(1000, 1000, true), func(w *world) {
		unused := w.connect(good)
		used := w.connect(good)
		given := w.accepted()
		given[1].begin() // its first request is here
		if err := w.ln.Listener.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !unused.shut.Load() {
			t.Error("the connection that has said nothing is still open: a stop would wait for it")
		}
		if used.shut.Load() {
			t.Error("the connection whose request is under way was closed")
		}
		closeAll(given)
		w.pipes.closed = make(chan struct{}) // inWorld closes it again
	})
}

func TestEventSourcesThatAreRefusedComeBack(t *testing.T) {
	c := &conn{refused: problem.ConnectRate.New().After(7 * time.Second)}
	for accept, want := range map[string]string{"text/event-stream": "200 retry: 7000\nevent: goodbye\ndata: {\"reason\":\"rate_limited\"", "*/*": "429 {"} {
		r := httptest.NewRequest(http.MethodGet, "/v1/stream", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		c.refuse(w, r)
		if got := fmt.Sprintf("%d %s", w.Code, w.Body); !strings.HasPrefix(got, want) {
			t.Errorf("Accept %s is answered %s, want %s…", accept, got, want)
		}
	}
}
