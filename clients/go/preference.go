package godwit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A transport that does not work in a network is not tried there for a while, since each try delays a session. The times are those of the
// TypeScript client.
const (
	firstRest   = 5 * time.Minute // doubles with each further failure
	longestRest = time.Hour
	muteAfter   = 5 * time.Second // in which the server must say something on a new link
)

// preference remembers whether a transport works in this network.
type preference struct {
	mu       sync.Mutex
	from     netip.Addr // this machine's address when it failed
	until    time.Time  // it rests
	failures int
}

// rests reports whether the transport is not to be tried. from is this machine's address now: another one is another network.
func (p *preference) rests(now time.Time, from netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from != p.from {
		p.until, p.failures = time.Time{}, 0
	}
	return now.Before(p.until)
}

// failed records that the transport did not work. While it rests that is no news.
func (p *preference) failed(now time.Time, from netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.until) && from == p.from {
		return
	}
	p.from = from
	p.until = now.Add(min(longestRest, firstRest<<min(p.failures, 10)))
	p.failures++
}

// forget records that the transport works, or that the network is another one.
func (p *preference) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until, p.failures = time.Time{}, 0
}

// source returns the address from which the system sends to a host now. It costs no packet to the host. The zero value: it is unknown.
func source(ctx context.Context, host string) netip.Addr {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", host)
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	at, _ := netip.ParseAddrPort(c.LocalAddr().String())
	return at.Addr().Unmap()
}

// dialLink opens a link, or a WebSocket where links do not work.
func (c *Client) dialLink(ctx context.Context) (conn, error) {
	from := source(ctx, c.base.Host)
	if c.prefer.rests(time.Now(), from) {
		return c.dialWebSocket(ctx)
	}
	link, err := c.transport(ctx, LinkOptions{URL: *c.base, Roots: c.roots})
	switch refused, told := errors.AsType[*LinkClosedError](err); {
	case err == nil:
		c.links.add(link)
		return &linkConn{Link: link, client: c, from: from, since: time.Now()}, nil
	case told && refused.Code == policyViolation:
		return nil, &RefusedError{Reason: refused.Reason, Err: err}
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect: %w", err)
	}
	ws, wrong := c.dialWebSocket(ctx)
	if wrong == nil { // else it is the server that is away
		c.prefer.failed(time.Now(), from)
	}
	return ws, wrong
}
