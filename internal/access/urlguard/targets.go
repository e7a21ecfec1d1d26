package urlguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Setting is the key of the operator's setting from which Targets are parsed, as errors name it.
const Setting = "allow_targets"

// MaxTargets is the most entries of the setting. Each dial is compared with every entry.
const MaxTargets = 1000

// Targets are the addresses to which URLs may lead. The zero value stands for public addresses alone. Targets never change, so copies are
// cheap and safe.
type Targets struct {
	everything bool
	operator   bool // they come from the operator's setting, so refusals may name it
	written    bool // see Written
	rules      []rule
}

// rule allows the addresses of a prefix, or those of a named host.
type rule struct {
	name   string // in the form of hostName; empty: prefix decides
	prefix netip.Prefix
	port   uint16 // 0: any
}

var (
	// All lifts every limit: for tests, and for what the owner of the data folder sets.
	All = Targets{everything: true}
	// Loopback allows this machine's own services.
	Loopback = Targets{rules: rulesOf(prefixes("127.0.0.0/8", "::1/128"))}
	// Networks allows this machine and private networks (RFC 1918, RFC 4193).
	Networks = Loopback.And(Targets{rules: rulesOf(prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))})
)

func rulesOf(blocks []netip.Prefix) (list []rule) {
	for _, p := range blocks {
		list = append(list, rule{prefix: p})
	}
	return list
}

// ParseTargets reads the entries of the operator's setting: prefixes, addresses and hosts, the latter two with a port if only that one is
// meant. The error names the entry. Targets without entries still say in refusals how the operator can allow more.
func ParseTargets(entries []string) (Targets, error) {
	t := Targets{operator: true}
	if len(entries) > MaxTargets {
		return t, fmt.Errorf("has %d entries; at most %d are allowed", len(entries), MaxTargets)
	}
	for _, entry := range entries {
		r, err := parseRule(entry)
		if err != nil {
			return Targets{operator: true}, fmt.Errorf("has the entry %.100q, which %w", entry, err)
		}
		t.rules = append(t.rules, r)
	}
	return t, nil
}

func parseRule(entry string) (rule, error) {
	if strings.Contains(entry, "://") {
		return rule{}, errors.New("is a URL: write the host alone, like hooks.internal:8443")
	}
	if strings.Contains(entry, "/") {
		p, err := parsePrefix(entry)
		return rule{prefix: p}, err
	}
	host, port, err := splitPort(entry)
	if err != nil {
		return rule{}, err
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return rule{}, errors.New("has a zone, which only this machine understands")
		}
		addr = addr.Unmap()
		return rule{prefix: netip.PrefixFrom(addr, addr.BitLen()), port: port}, nil
	}
	name := hostName(host)
	return rule{name: name, port: port}, checkName(name)
}

func parsePrefix(entry string) (p netip.Prefix, err error) {
	if p, err = netip.ParsePrefix(entry); err != nil || p.Addr().Is4In6() {
		return p, errors.New("is no prefix like 10.0.0.0/8 or fd00::/8; ports are for addresses and hosts alone")
	}
	if m := p.Masked(); m != p {
		return p, fmt.Errorf("has bits behind its length: write %s for the network, or %s for the address", m, p.Addr())
	}
	return p, nil
}

// splitPort splits host, host:port, address, address:port and [address]:port.
func splitPort(entry string) (host string, port uint16, err error) {
	if _, err := netip.ParseAddr(entry); err == nil || !strings.Contains(entry, ":") {
		return entry, 0, nil
	}
	host, text, err := net.SplitHostPort(entry)
	if err != nil {
		return "", 0, errors.New("is neither an address nor a host with a port")
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, errors.New("has no port from 1 to 65535")
	}
	return host, uint16(n), nil
}

const maxLabel, maxName = 63, 253 // bytes, by RFC 1035 section 2.3.4

func checkName(name string) error {
	if strings.Contains(name, "*") {
		return errors.New("has a wildcard: name each host, or the network in which their addresses are")
	}
	if isNumber(name) {
		return errors.New("has a number for a host: write an address like 192.0.2.1")
	}
	if strings.IndexFunc(name, func(r rune) bool { return r >= 0x80 }) >= 0 {
		return errors.New("has letters of another script: write the name as it stands in DNS, beginning with xn--")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return errors.New("is neither a prefix nor an address nor a host, each like 10.0.0.0/8, 10.0.0.5:8443 and hooks.internal:8443")
		}
	}
	if len(name) > maxName {
		return fmt.Errorf("has more than %d bytes", maxName)
	}
	return nil
}

// hostName returns a host in the one form in which rules and URLs are compared. HTTP clients dial names in other scripts as xn--….
func hostName(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// And returns the targets of both.
func (t Targets) And(other Targets) Targets {
	return Targets{everything: t.everything || other.everything, operator: t.operator || other.operator, written: t.written || other.written, rules: slices.Concat(t.rules, other.rules)}
}

// Strangers returns the targets for URLs that visitors and clients give, such as push subscriptions: what the operator allows is not for
// them, so these are public addresses alone, unless every limit is lifted.
func (t Targets) Strangers() Targets { return Targets{everything: t.everything} }

// Written returns the targets for URLs whose author is known only when they are stored: private addresses are allowed to hosts alone that
// the operator names as the URL writes them. A name that only resolves to an allowed address might come from anybody.
func (t Targets) Written() Targets {
	t.written = true
	return t
}

// Everything reports whether every limit is lifted, also for files and sockets, which have no address.
func (t Targets) Everything() bool { return t.everything }

// allows reports whether a connection may be made to an address that a host has. The host may be the address itself.
func (t Targets) allows(host string, a netip.Addr, port uint16) bool {
	return t.everything || Global(a) || (!t.written || t.names(host, port)) && t.named(host, a.Unmap(), port)
}

func (t Targets) named(host string, a netip.Addr, port uint16) bool {
	return slices.ContainsFunc(t.rules, func(r rule) bool { return r.covers(host, a, port) })
}

// covers leaves out addresses where credentials may be had, unless the rule is for exactly that address: who allows a network or a name
// did not mean them.
func (r rule) covers(host string, a netip.Addr, port uint16) bool {
	switch {
	case r.port != 0 && r.port != port:
		return false
	case r.name != "":
		return r.name == host && !guarded(a)
	}
	return r.prefix.Contains(a) && (r.prefix.IsSingleIP() || !guarded(a))
}

// names reports whether the rules name the host of a URL, so that it may be private and need not be encrypted. Local names stand for this
// machine's addresses. For other names it makes no lookup.
func (t Targets) names(host string, port uint16) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return t.named(host, addr.Unmap(), port)
	}
	name := hostName(host)
	if isLocal(name) && (t.named("", netip.AddrFrom4([4]byte{127, 0, 0, 1}), port) || t.named("", netip.IPv6Loopback(), port)) {
		return true
	}
	return slices.ContainsFunc(t.rules, func(r rule) bool { return r.name != "" && r.name == name && (r.port == 0 || r.port == port) })
}

// Names reports whether the operator names the URL's host, so that plain http is allowed to it.
func (t Targets) Names(u *url.URL) bool { return t.everything || t.names(u.Hostname(), portOf(u)) }

func portOf(u *url.URL) uint16 {
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, _ := strconv.ParseUint(text, 10, 16) // 0: only rules for any port match
	return uint16(n)
}

// CheckHost rejects a URL whose host is private and not allowed, as far as this is visible without a DNS lookup.
func (t Targets) CheckHost(u *url.URL) error {
	host := u.Hostname()
	if t.everything || t.names(host, portOf(u)) {
		return nil
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil && !Global(addr):
		return t.refusal(addr)
	case err == nil:
		return nil
	case isNumber(host):
		return errors.New("has a number for a host: write an address like 192.0.2.1")
	case isLocal(hostName(host)):
		return t.refusal(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return nil
}

// Guard returns a copy of a dialer that dials only allowed addresses of a host. address is what it is going to dial: host and port.
func (t Targets) Guard(d *net.Dialer, address string) *net.Dialer {
	guarded := *d
	if t.everything {
		return &guarded
	}
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		host = hostName(host)
	}
	guarded.Control = func(network, address string, _ syscall.RawConn) error { return t.control(host, network, address) }
	return &guarded
}

// control runs for each resolved address, right before the connection.
func (t Targets) control(host, network, address string) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s is not TCP", ErrPrivate, network)
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s cannot be read", ErrPrivate, address)
	}
	if !t.allows(host, ap.Addr(), ap.Port()) {
		return t.refusal(ap.Addr())
	}
	return nil
}

func (t Targets) refusal(a netip.Addr) error {
	return &PrivateError{addr: a.Unmap(), operator: t.operator}
}

// PrivateError reports an address to which a URL may not lead. It is ErrPrivate.
type PrivateError struct {
	addr     netip.Addr
	operator bool
}

// Error names the address and the setting only to those who depend on the operator's setting: strangers learn no addresses.
func (e *PrivateError) Error() string {
	switch {
	case !e.operator:
		return "leads to an address that is not public"
	case guarded(e.addr) && !e.addr.IsUnspecified():
		return fmt.Sprintf("leads to %s, where clouds keep credentials or a link has its own addresses: the operator may allow it by naming exactly this address in %s", e.addr, Setting)
	}
	return fmt.Sprintf("leads to %s, which is not public: the operator may allow it with %s", e.addr, Setting)
}

// Plain is the text for where a sentence about the server goes on.
func (e *PrivateError) Plain() string {
	if !e.operator {
		return ErrPrivate.Error()
	}
	return "it " + e.Error()
}

// Is makes the error ErrPrivate.
func (e *PrivateError) Is(target error) bool { return target == ErrPrivate }
