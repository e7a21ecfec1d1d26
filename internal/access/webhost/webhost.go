// Package webhost converts hosts and origins to the form that browsers use, for comparison with browsers' headers.
package webhost

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Host returns a URL's host as browsers send it in Host and Origin: in lower case, other scripts by IDNA, an address in its shortest form
// (WHATWG URL, section 3.5). An invalid host is returned unchanged.
func Host(name string) string {
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.String()
	}
	for i := range len(name) {
		if name[i] >= 0x80 {
			if ascii, err := idna.Lookup.ToASCII(name); err == nil {
				return ascii
			}
			break
		}
	}
	return strings.ToLower(name)
}

// Authority returns the host and port of an origin as browsers send them: without the scheme's default port.
func Authority(scheme, hostport string) string {
	u := url.URL{Host: hostport}
	host, port := Host(u.Hostname()), u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		port = strconv.FormatUint(n, 10)
	}
	switch {
	case port != "" && (scheme != "http" || port != "80") && (scheme != "https" || port != "443"):
		return net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		return "[" + host + "]"
	}
	return host
}
