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
	"syscall"
	"time"
)

// ErrPrivate says that the URL leads to an address that is not a public one.
var ErrPrivate = errors.New("address is not public")

// CheckURL says what is wrong with a URL before it is kept. Where private addresses are allowed (tests, closed
// networks) http is as well. Names are not resolved here: the client checks what it dials.
func CheckURL(raw string, allowPrivate bool) error {
	_, err := ParseURL(raw, allowPrivate)
	return err
}

// ParseURL is CheckURL for who needs the URL's parts.
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
	case u.Fragment != "":
		return nil, errors.New("must not contain a fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !allowPrivate):
		return nil, errors.New("must begin with https://")
	}
	if allowPrivate {
		return u, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil && !Global(addr) {
		return nil, errors.New("leads to an address that is not public")
	}
	return u, nil
}

// Options bound a client.
type Options struct {
	AllowPrivate bool
	Timeout      time.Duration // of a whole request; 0: 10 s
	ConnsPerHost int           // 0: 16
}

// Client makes a client that dials public addresses only, follows no redirect (the answer 3xx is returned as it
// is), uses no proxy, and reuses connections. SSL_CERT_FILE is honoured, as by every Go program.
func Client(o Options) *http.Client {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.ConnsPerHost == 0 {
		o.ConnsPerHost = 16
	}
	d := &net.Dialer{Timeout: o.Timeout, KeepAlive: 30 * time.Second}
	if !o.AllowPrivate {
		d.Control = checkDial
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
			MaxIdleConnsPerHost:    o.ConnsPerHost,
			MaxIdleConns:           256,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// checkDial runs for each address a name resolved to, right before the connection to it is made.
func checkDial(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s is not TCP", ErrPrivate, network)
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s cannot be read", ErrPrivate, address)
	}
	if !Global(ap.Addr()) {
		return fmt.Errorf("%w: %s", ErrPrivate, ap.Addr())
	}
	return nil
}
