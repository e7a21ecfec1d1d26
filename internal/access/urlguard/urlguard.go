// Package urlguard makes HTTP clients for URLs that people enter. Such a URL must not reach what only this machine can reach: its own
// services, its network's services, a cloud's metadata address. The check is made on the address about to be dialled, after name
// resolution, so a name that changes its address between check and use gains nothing.
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

// ErrPrivate reports that the URL's address is not public.
var ErrPrivate = errors.New("address is not public")

// CheckURL validates a URL before it is stored. If private addresses are allowed (tests, closed networks), so is http. It does not resolve
// names: the client checks the addresses that it dials.
func CheckURL(raw string, allowPrivate bool) error {
	_, err := ParseURL(raw, allowPrivate)
	return err
}

// ParseURL is CheckURL, but returns the parsed URL.
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
	case strings.Contains(raw, "#"): // even an empty fragment, because it would cut off anything appended
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

// ParseBase is ParseURL for a server's base URL, to which requests append paths. It must have no query, and a path that every server reads
// in the same way: no encoded characters, no "." or ".." parts. Append paths with URL.JoinPath.
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
		u.Path = "/" // JoinPath would leave an empty path relative
	}
	return u, nil
}

// plainPath lists the characters that no server decodes, splits at or treats as parameters (RFC 3986, section 2.3), and the colon.
const plainPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:"

// checkHost rejects hosts that are private, as far as this is visible without a DNS lookup.
func checkHost(host string) error {
	addr, err := netip.ParseAddr(host)
	if err == nil {
		if !Global(addr) {
			return errors.New("leads to an address that is not public")
		}
		return nil
	}
	// Some resolvers accept a number as an address, in parts, in octal and in hexadecimal: 0x7f.1 is 127.0.0.1. No name ends in a number
	// (RFC 3696, section 2; WHATWG URL, section 3.5).
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

// Reach sets which addresses a client may connect to.
type Reach int

// Reaches.
const (
	Public   Reach = iota // to public addresses
	Networks              // also this machine and private networks (RFC 1918, RFC 4193), but not link-local addresses and those where clouds keep credentials
	Anywhere
)

func (r Reach) allows(a netip.Addr) bool {
	a = a.Unmap()
	return r == Anywhere || Global(a) || r == Networks && a.Zone() == "" && (a.IsLoopback() || a.IsPrivate()) && !within(a, metadata)
}

// CheckHost rejects a host that is an address out of reach. It makes no DNS lookup.
func CheckHost(host string, r Reach) error {
	if addr, err := netip.ParseAddr(host); err == nil && !r.allows(addr) {
		return errors.New("leads to an address that is not allowed here")
	}
	return nil
}

// Options bound a client.
type Options struct {
	AllowPrivate bool          // true stands for Reach Anywhere: the setting of most callers
	Reach        Reach         // else
	Timeout      time.Duration // of a whole request; 0: 10 s
	ConnsPerHost int           // 0: 16; Unbounded
}

// Unbounded is for clients whose callers limit simultaneous requests themselves.
const Unbounded = -1

// idlePerHost is the number of idle connections kept to a host if ConnsPerHost is Unbounded.
const idlePerHost = 16

// Client returns an HTTP client that dials only allowed addresses, follows no redirects (it returns the 3xx answer), uses no proxy, and
// reuses connections. It honours SSL_CERT_FILE, as every Go program does.
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
			Proxy:                  nil, // a proxy would be dialled instead of the checked address
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

// Control makes a net.Dialer dial only public addresses. It runs for each resolved address, right before the connection.
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
