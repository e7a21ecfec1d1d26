// Package urlguard makes HTTP clients for URLs that people enter. Such a URL must not reach what only this machine can reach: its own
// services, its network's services, a cloud's metadata address. The check is made on the address about to be dialled, after name
// resolution, so a name that changes its address between check and use gains nothing.
package urlguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrPrivate reports that the URL's address is not public.
var ErrPrivate = errors.New("address is not public")

// CheckURL validates a URL before it is stored. Hosts that the targets name may be private and have plain http. It does not resolve names:
// the client checks the addresses that it dials.
func (t Targets) CheckURL(raw string) error {
	_, err := t.ParseURL(raw)
	return err
}

// ParseURL is CheckURL, but returns the parsed URL.
func (t Targets) ParseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, errors.New("is not a URL like https://host/path")
	case u.User != nil:
		return nil, errors.New("must not contain a user or password")
	case strings.Contains(raw, "#"): // even an empty fragment, because it would cut off anything appended
		return nil, errors.New("must not contain a fragment")
	case u.Scheme == "http" && t.Names(u):
		return u, nil
	case u.Scheme == "http" && t.operator:
		return nil, fmt.Errorf("must begin with https://: plain http:// is for hosts that the operator names in %s", Setting)
	case u.Scheme != "https":
		return nil, errors.New("must begin with https://")
	}
	if err := t.CheckHost(u); err != nil {
		return nil, err
	}
	return u, nil
}

// ParseBase is ParseURL for a server's base URL, to which requests append paths. It must have no query, and a path that every server reads
// in the same way: no encoded characters, no "." or ".." parts. Append paths with URL.JoinPath.
func (t Targets) ParseBase(raw string) (*url.URL, error) {
	u, err := t.ParseURL(raw)
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

// isNumber reports whether a host is an address for some resolvers, which accept numbers in parts, in octal and in hexadecimal: 0x7f.1 is
// 127.0.0.1. No name ends in a number (RFC 3696, section 2; WHATWG URL, section 3.5).
func isNumber(host string) bool {
	last := lastLabel(host)
	hex, isHex := strings.CutPrefix(last, "0x")
	return isHex && strings.Trim(hex, "0123456789abcdef") == "" || last != "" && strings.Trim(last, "0123456789") == ""
}

// isLocal reports whether a host is a name of this machine (RFC 6761, section 6.3).
func isLocal(host string) bool { return lastLabel(host) == "localhost" }

func lastLabel(host string) string {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	return name[strings.LastIndexByte(name, '.')+1:]
}

// Options bound a client.
type Options struct {
	Timeout      time.Duration // of a whole request; 0: 10 s
	ConnsPerHost int           // 0: 16; Unbounded
}

// Unbounded is for clients whose callers limit simultaneous requests themselves.
const Unbounded = -1

// idlePerHost is the number of idle connections kept to a host if ConnsPerHost is Unbounded.
const idlePerHost = 32

// Client returns an HTTP client that dials only these targets, follows no redirects (it returns the 3xx answer), uses no proxy, and
// reuses connections. It honours SSL_CERT_FILE, as every Go program does.
func (t Targets) Client(o Options) *http.Client {
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
	d := &net.Dialer{Timeout: o.Timeout, KeepAlive: 30 * time.Second}
	return &http.Client{
		Timeout:       o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: nil, // a proxy would be dialled instead of the checked address
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return t.Guard(d, address).DialContext(ctx, network, address)
			},
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
