// Package urlguard makes HTTP clients for URLs that people type in. Such a URL must not reach what only this machine
// can reach: its own services, its network's, a cloud's metadata address. The check is made on the address about
// to be dialled, after names were resolved, so a name that changes its mind between check and use gains nothing.
package urlguard

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// ErrPrivate says that the URL leads to an address that is not a public one.
var ErrPrivate = errors.New("address is not public")

// CheckURL reports what is wrong with a URL before it is stored. If private addresses are allowed (tests, closed
// networks), http is as well. Names are not resolved here: the client checks the addresses it dials.
func CheckURL(raw string, allowPrivate bool) error {
	_, err := ParseURL(raw, allowPrivate)
	return err
}

// ParseURL is CheckURL for callers that need the URL's parts.
func ParseURL(raw string, allowPrivate bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, errors.New("is not a URL like https://host/path")
	}
	host := u.Hostname()
	switch {
	case host == "":
		return nil, errors.New("is not a URL like https://host/path")
	case u.User != nil:
		return nil, errors.New("must not contain a user or password")
	case strings.Contains(raw, "#"): // also an empty one: it would cut off all that is appended
		return nil, errors.New("must not contain a fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !allowPrivate):
		return nil, errors.New("must begin with https://")
	}
	if allowPrivate {
		return u, nil
	}
	if err := checkHost(host); err != nil {
		return nil, err
	}
	return u, nil
}

// ParseBase is ParseURL for the URL of a server, below which requests name paths of their own. It has no query, and its path
// reads the same to every server: no encoded characters, no dots that lead upwards. Paths are added with URL.JoinPath.
func ParseBase(raw string, allowPrivate bool) (*url.URL, error) {
	u, err := ParseURL(raw, allowPrivate)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.ForceQuery {
		return nil, errors.New("must not contain a query: paths are added to it")
	}
	for part := range strings.SplitSeq(u.EscapedPath(), "/") {
		if strings.Trim(part, plainPath) != "" || part == "." || part == ".." {
			return nil, errors.New("must have a path of letters, digits and -._~ alone: paths are added to it")
		}
	}
	if u.Path == "" {
		u.Path = "/" // JoinPath keeps a path without one relative
	}
	return u, nil
}

// plainPath are the characters that no server decodes, splits at or takes for parameters (RFC 3986, section 2.3), and the colon.
const plainPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:"

// checkHost refuses hosts that are private as far as that shows without a DNS lookup.
func checkHost(host string) error {
	addr, err := netip.ParseAddr(host)
	if err == nil {
		if !Global(addr) {
			return errors.New("leads to an address that is not public")
		}
		return nil
	}
	// Some resolvers read a number as an address, in parts, in octal and in hexadecimal: 0x7f.1 is 127.0.0.1. No name ends in
	// a number (RFC 3696, section 2; WHATWG URL, section 3.5).
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch hex, isHex := strings.CutPrefix(last, "0x"); {
	case isHex && strings.Trim(hex, "0123456789abcdef") == "", last != "" && strings.Trim(last, "0123456789") == "":
		return errors.New("has a number for a host: write an address like 192.0.2.1")
	case last == "localhost":
		return errors.New("leads to an address that is not public")
	}
	return nil
}

// Reach is how far a client's connections may lead.
type Reach int

// Reaches.
const (
	Public   Reach = iota // to public addresses
	Networks              // also to this machine and to private networks (RFC 1918, RFC 4193), never to link-local addresses and those where clouds keep credentials
	Anywhere
)

func (r Reach) allows(a netip.Addr) bool {
	a = a.Unmap()
	return r == Anywhere || Global(a) || r == Networks && a.Zone() == "" && (a.IsLoopback() || a.IsPrivate()) && !within(a, metadata)
}

// CheckHost refuses a host that is an address out of reach. It makes no DNS lookup.
func CheckHost(host string, r Reach) error {
	if addr, err := netip.ParseAddr(host); err == nil && !r.allows(addr) {
		return errors.New("leads to an address that is not allowed here")
	}
	return nil
}

// Options bound a client.
type Options struct {
	AllowPrivate bool          // the setting in the form that most callers have
	Reach        Reach         // else
	Timeout      time.Duration // of a whole request; 0: 10 s
	ConnsPerHost int           // 0: 16; Unbounded
}

// Unbounded is for clients whose users limit simultaneous requests themselves.
const Unbounded = -1

// idlePerHost is how many connections to a host are kept where their number is not bounded.
const idlePerHost = 16

// Client makes a client that dials public addresses only, follows no redirect (the answer 3xx is returned as it
// is), uses no proxy, and reuses connections. SSL_CERT_FILE is honoured, as by every Go program.
func Client(o Options) *http.Client {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.ConnsPerHost == 0 {
		o.ConnsPerHost = 16
	}
	idle := o.ConnsPerHost
	if o.ConnsPerHost == Unbounded {
		o.ConnsPerHost, idle = 0, idlePerHost // 0 bounds nothing there
	}
	if o.AllowPrivate {
		o.Reach = Anywhere
	}
	d := &net.Dialer{Timeout: o.Timeout, KeepAlive: 30 * time.Second}
	if o.Reach != Anywhere {
		d.Control = o.Reach.control
	}
	return &http.Client{
		Timeout:       o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would be dialled instead of the address that is checked
			DialContext:            d.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    o.Timeout,
			ForceAttemptHTTP2:      true,
			MaxConnsPerHost:        o.ConnsPerHost,
			MaxIdleConnsPerHost:    idle,
			MaxIdleConns:           256,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// Control has a net.Dialer dial public addresses only. It runs for each address a name resolved to, right before the connection to it is
// made.
func Control(network, address string, c syscall.RawConn) error {
	return Public.control(network, address, c)
}

func (r Reach) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s is not TCP", ErrPrivate, network)
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s cannot be read", ErrPrivate, address)
	}
	if !r.allows(ap.Addr()) {
		return fmt.Errorf("%w: %s", ErrPrivate, ap.Addr())
	}
	return nil
}
