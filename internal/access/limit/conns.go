package limit

import (
	"errors"
	"net/netip"
	"sync"
)

// Reasons why a connection is refused.
var (
	ErrFull     = errors.New("as many connections are open as may be")
	ErrAddrFull = errors.New("as many connections are open from this address as may be")
)

// Conns counts open connections, in total and by client address.
type Conns struct {
	most, mostOf int
	loopback     bool

	mu     sync.Mutex
	open   int
	of     map[netip.Prefix]*holder
	exempt holder
}

// holder is a client address with open connections.
type holder struct {
	who   netip.Prefix
	open  int
	leave func() // shared by all of its connections, so that a connection need not store its address
}

// NewConns allows most connections in total, and mostOf from one address. Loopback is exempt from the second limit unless limitLoopback is
// set.
func NewConns(most, mostOf int, limitLoopback bool) *Conns {
	c := &Conns{most: most, mostOf: mostOf, loopback: limitLoopback, of: make(map[netip.Prefix]*holder)}
	c.exempt.leave = func() { c.left(&c.exempt) }
	return c
}

// Enter counts a new connection. leave must be called once when the connection is closed. The error is ErrFull or ErrAddrFull.
func (c *Conns) Enter(addr netip.Addr) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.exempt
	if !exempt(addr, c.loopback) {
		who := Client(addr)
		if h = c.of[who]; h == nil {
			h = &holder{who: who}
		}
		if h.open >= c.mostOf {
			return nil, ErrAddrFull
		}
	}
	if c.open >= c.most {
		return nil, ErrFull
	}
	if h.leave == nil {
		h.leave = func() { c.left(h) }
		c.of[h.who] = h
	}
	c.open++
	h.open++
	return h.leave, nil
}

func (c *Conns) left(h *holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if h.open--; h.open == 0 && h != &c.exempt {
		delete(c.of, h.who)
	}
}

// Open returns the number of open connections.
func (c *Conns) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}
