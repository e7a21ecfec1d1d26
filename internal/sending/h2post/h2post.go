// Package h2post posts very many small messages to few servers over HTTP/2 (RFC 9113). It does what net/http does for
// any request with less work for each of these: messages that are ready together leave in one write, no goroutine is
// started for one, and headers that are different each time do not push those that are the same out of the table
// that both sides keep.
package h2post

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"godwit.dev/godwit/internal/sending/foreign"
)

const (
	// usualConns bounds the connections to one server, if Config does not; most allow a hundred messages at once on each.
	usualConns = 32
	// maxFarewell limits the reason that is kept when a server ends a connection, in bytes.
	maxFarewell = 256
	// maxAgain is how often a message that a server certainly did not look at is tried on another connection.
	maxAgain = 3
	// maxAnswer limits the part of an answer's body that is kept, in bytes; providers' errors are far shorter.
	maxAnswer = 16 << 10
	// redialAfter is how long after a connection could not be made another one is tried, where there are some already.
	redialAfter = time.Second
	// plainFor is how long a server without HTTP/2 is not tried again.
	plainFor = time.Hour
	// maxHosts limits the servers without connections that are kept. Strangers can choose their names.
	maxHosts = 1024
)

var (
	// ErrUnsuited says that the server does not speak HTTP/2, or takes messages of this size only in pieces. Nothing was
	// sent; net/http can do it.
	ErrUnsuited = foreign.Own("the server does not speak HTTP/2 as it is needed")

	errNoStatus = foreign.Own("the answer has no status, or too many headers")

	errClosed  = foreign.Own("the connection was closed")
	errRefused = foreign.Own("the server refused to look at it")
)

// GoAwayError says that the server has ended the connection.
type GoAwayError struct {
	Code http2.ErrCode
	Said string // its debug data, which some servers put the reason into; empty: nothing
}

func (e *GoAwayError) Error() string {
	if e.Said == "" {
		return e.Plain()
	}
	return e.Plain() + ": " + e.Said
}

// Plain is the error without the server's text.
func (e *GoAwayError) Plain() string {
	return "the server has ended the connection (" + e.Code.String() + ")"
}

// Config holds the time limits and connections of a Client.
type Config struct {
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	TLS     func() *tls.Config // nil, or returning nil: the system's roots
	Timeout time.Duration      // for connecting, and for the network to take written bytes
	Silence time.Duration      // after which a connection gets a ping; after twice that it is dead
	Idle    time.Duration      // after which an unused connection is closed
	Conns   int                // most connections to one server; 0: 32
}

// Request is a message.
type Request struct {
	Address   string // host:port to connect to
	Authority string // as the URL names the host
	Path      string // with the query; it is taken for a secret
	Header    []hpack.HeaderField
	Body      []byte
}

// Answer is the server's answer.
type Answer struct {
	Status int
	Header http.Header // nil for a 2xx
	Body   []byte      // its beginning
	Cut    error       // the body broke off
}

// Client posts messages. It may be used by many goroutines at once.
type Client struct {
	cfg    Config
	mu     sync.Mutex
	hosts  map[string]*host
	closed atomic.Bool
	loops  loops
}

// New makes a client.
func New(cfg Config) *Client {
	if cfg.Conns == 0 {
		cfg.Conns = usualConns
	}
	return &Client{cfg: cfg, hosts: make(map[string]*host)}
}

// Close closes connections as soon as nothing is under way on them, and returns once all are closed and none is being
// opened. The client can still be used, with a connection for each message.
func (c *Client) Close() error {
	c.closed.Store(true)
	c.mu.Lock()
	hosts := make([]*host, 0, len(c.hosts))
	for _, h := range c.hosts {
		hosts = append(hosts, h)
	}
	c.mu.Unlock()
	for _, h := range hosts {
		h.mu.Lock()
		h.retire()
		h.mu.Unlock()
	}
	c.loops.wait()
	return nil
}

// Post sends a message and waits for the answer. If there is none, sent says whether the message may have arrived.
func (c *Client) Post(ctx context.Context, r *Request) (a *Answer, sent bool, err error) {
	h := c.host(r.Address)
	for tries := 1; ; tries++ {
		s := &stream{req: r, done: make(chan struct{})}
		if err := h.admit(ctx, s); err != nil {
			return nil, false, err
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			h.abandon(s, ctx.Err())
			<-s.done
		}
		switch {
		case s.err == nil:
			return &s.answer, true, nil
		case s.answer.Status != 0:
			s.answer.Cut = s.err
			return &s.answer, true, nil
		case s.again && tries < maxAgain && ctx.Err() == nil:
			continue
		}
		return nil, s.left, s.err
	}
}

func (c *Client) host(address string) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hosts[address]
	if h == nil {
		if len(c.hosts) >= maxHosts {
			c.forget()
		}
		h = &host{c: c, address: address}
		c.hosts[address] = h
	}
	return h
}

// forget drops the state of servers without connections. c.mu is held.
func (c *Client) forget() {
	for address, h := range c.hosts {
		h.mu.Lock()
		unused := len(h.conns)+h.dialing+len(h.waiting) == 0
		h.mu.Unlock()
		if unused { // a caller that has just got it can still use it; it is only no longer shared
			delete(c.hosts, address)
		}
	}
}
