package admission

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/engine/reactor"
)

// New connections take some 25 KB each until their first request is answered, ten times what they need later. When thousands arrive at
// once, net/http gets them only as fast as it serves them; the others wait and use nothing but their descriptor. Addresses take turns, and
// one address has at most half of the places that the others leave, so that a silent or distant client cannot delay the rest for long.
const (
	mostFresh = 32
	freshFor  = 50 * time.Millisecond
)

// listener is an HTTP listener behind a gate.
type listener struct {
	net.Listener
	gate  *Gate
	spare *reactor.Spare
	news  chan struct{} // has a token when Accept has a connection to check
	done  chan struct{} // closed when the listener accepts nothing any more

	mu      sync.Mutex
	lines   map[netip.Prefix]*line
	turns   []*line            // addresses with connections waiting; the first is next
	arrived []*conn            // the fresh ones, oldest first
	silent  map[*conn]struct{} // connections that have sent no request so far
	err     error              // why the listener accepts nothing any more
}

// line holds the waiting connections of one address, and the number of its fresh ones.
type line struct {
	who   netip.Prefix
	waits []*conn
	fresh int
}

// Listen puts the gate before a listener of a guarded server. Closing the result, or ln, ends both.
func (g *Gate) Listen(ln net.Listener) net.Listener {
	l := &listener{
		Listener: ln, gate: g, news: make(chan struct{}, 1), done: make(chan struct{}), lines: make(map[netip.Prefix]*line), silent: make(map[*conn]struct{}),
	}
	l.spare = reactor.NewSpare()
	go l.run()
	return l
}

// Close ends accepting.
func (l *listener) Close() error {
	err := l.Listener.Close()
	<-l.done
	return err
}

// run accepts connections from the system's queue as they arrive, so that none waits there behind a flood.
func (l *listener) run() {
	defer close(l.done)
	for {
		nc, err := l.Listener.Accept()
		switch {
		case err == nil:
			l.came(nc)
			l.spare.Restore()
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			if l.spare.Shed(l.Listener) {
				l.gate.NoFiles()
			}
		case errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.EINTR):
		default:
			l.end(err)
			return
		}
	}
}

// came accepts a new connection or refuses it.
func (l *listener) came(nc net.Conn) {
	var addr netip.Addr
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		addr = a.AddrPort().Addr().Unmap()
	}
	c := &conn{Conn: nc, ln: l}
	patience := Patience
	leave, why := l.gate.enter(addr)
	if why != welcome {
		var ok bool
		if leave, ok = l.gate.tell(addr); !ok {
			_ = nc.Close() // it is a stranger's
			return
		}
		c.refused, patience = l.gate.problem(why, addr), toldFor
	}
	c.leave = leave
	l.mu.Lock()
	defer l.mu.Unlock()
	c.due = time.AfterFunc(patience, c.late)
	l.silent[c] = struct{}{}
	who := netip.Prefix{}
	if addr.IsValid() {
		who = limit.Client(addr)
	}
	if c.line = l.lines[who]; c.line == nil {
		c.line = &line{who: who}
		l.lines[who] = c.line
	}
	if c.line.waits = append(c.line.waits, c); len(c.line.waits) == 1 {
		l.turns = append(l.turns, c.line)
	}
	l.notify()
}

// spoken records that a connection is no longer silent: its first request has arrived, or the connection is closed.
func (l *listener) spoken(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.silent, c)
}

// end closes the connections that wait, and those in net/http that have sent no request: a shutdown would wait for these.
func (l *listener) end(err error) {
	l.spare.Close()
	l.mu.Lock()
	l.err = err
	var left []*conn
	for c := range l.silent {
		left = append(left, c)
	}
	l.notify()
	l.mu.Unlock()
	for _, c := range left {
		_ = c.Close() // nobody has said anything yet
	}
}

func (l *listener) notify() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// Accept returns the next connection once few enough are fresh. Only one goroutine may call it.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, wait, err := l.next(time.Now())
		if c != nil || err != nil {
			return c, err
		}
		t := time.NewTimer(wait)
		select {
		case <-l.news:
		case <-t.C:
		}
		t.Stop()
	}
}

// next finds the connection whose turn it is, or returns the longest time to wait for one.
func (l *listener) next(now time.Time) (net.Conn, time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, 0, l.err
	}
	for len(l.arrived) > 0 && now.Sub(l.arrived[0].at) >= freshFor {
		l.leave(0)
	}
	for passed := 0; passed < len(l.turns) && len(l.arrived) < mostFresh; {
		ln := l.turns[0]
		l.turns = l.turns[1:]
		others := len(l.arrived) - ln.fresh
		if ln.fresh > 0 && 2*(ln.fresh+1) > mostFresh-others {
			l.turns = append(l.turns, ln)
			passed++
			continue
		}
		c := ln.waits[0]
		ln.waits[0] = nil
		if ln.waits = ln.waits[1:]; len(ln.waits) > 0 {
			l.turns = append(l.turns, ln)
		} else {
			ln.waits = nil
		}
		passed = 0
		if c.over {
			l.forget(ln)
			continue
		}
		c.at, c.fresh = now, true
		ln.fresh++
		l.arrived = append(l.arrived, c)
		return c, 0, nil
	}
	if len(l.arrived) == 0 {
		return nil, time.Hour, nil
	}
	return nil, freshFor - now.Sub(l.arrived[0].at), nil
}

// goOn records that a connection is not fresh any more, if it was; over: it is closed.
func (l *listener) goOn(c *conn, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.over = c.over || over
	if !c.fresh {
		return
	}
	l.leave(slices.Index(l.arrived, c))
	l.notify()
}

// leave removes a connection from the list of fresh ones.
func (l *listener) leave(i int) {
	c := l.arrived[i]
	l.arrived = slices.Delete(l.arrived, i, i+1)
	c.fresh = false
	c.line.fresh--
	l.forget(c.line)
}

// forget drops a line that is empty.
func (l *listener) forget(ln *line) {
	if ln.fresh == 0 && len(ln.waits) == 0 {
		delete(l.lines, ln.who)
	}
}
