// Package h2post posts very many small messages to few servers over HTTP/2 (RFC 9113). It does the same as net/http with less work for each
// request: messages that are ready together are sent in one write, no request starts a goroutine, and headers that differ in every request
// do not push constant headers out of the HPACK table that both sides keep.
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
	// usualConns limits the connections to one server, unless Config sets a limit; most servers allow a hundred concurrent messages on
	// each.
	usualConns = 32
	// maxFarewell limits the stored part of the reason with which a server ends a connection, in bytes.
	maxFarewell = 256
	// maxAgain limits the retries, on another connection, of a message that a server certainly did not process.
	maxAgain = 3
	// maxAnswer limits the stored part of an answer's body, in bytes; providers' errors are far shorter.
	maxAnswer = 16 << 10
	// redialAfter is the pause after a failed dial before the next one, for a server that other connections still reach.
	redialAfter = time.Second
	// plainFor is the time for which a server without HTTP/2 is not tried again.
	plainFor = time.Hour
	// maxHosts limits the servers whose state is stored while they have no connections. Strangers can choose their names.
	maxHosts = 1024
)

var (
	// ErrUnsuited reports that the server does not speak HTTP/2, or accepts messages of this size only in pieces. Nothing was sent;
	// net/http can send the message.
	ErrUnsuited = foreign.Own("the server does not speak HTTP/2 as it is needed")

	errNoStatus = foreign.Own("the answer has no status, or too many headers")

	errClosed  = foreign.Own("the connection was closed")
	errRefused = foreign.Own("the server refused to look at it")
)

// GoAwayError says that the server has ended the connection.
type GoAwayError struct {
	Code http2.ErrCode
	Said string // the frame's debug data, in which some servers give a reason; empty: none
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
	Timeout time.Duration      // limits connecting, and each write to the network
	Silence time.Duration      // a connection that receives nothing for so long gets a ping; after twice that time it counts as dead
	Idle    time.Duration      // an unused connection is closed after this time
	Conns   int                // limits the connections to one server; 0: 32
}

// Request is a message.
type Request struct {
	Address   string // host:port to connect to
	Authority string // the host as the URL writes it
	Path      string // with the query; treated as a secret
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

// Client posts messages. It is safe for concurrent use.
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

// Close closes each connection as soon as it has no message under way, and returns once all are closed and no dial is under way. The client
// can still be used; each message then gets a connection of its own.
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

// Post sends a message and waits for the answer. If it returns none, sent reports whether the message may have arrived.
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

// forget drops the state of servers without connections. The caller holds c.mu.
func (c *Client) forget() {
	for address, h := range c.hosts {
		h.mu.Lock()
		unused := len(h.conns)+h.dialing+len(h.waiting) == 0
		h.mu.Unlock()
		if unused { // a caller that already holds h can still use it; later callers get a new one
			delete(c.hosts, address)
		}
	}
}
