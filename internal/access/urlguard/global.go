package urlguard

import (
	"net/netip"
	"slices"
)

var (
	// special4 are the IPv4 blocks of the IANA special-purpose registry (RFC 6890 and updates), and multicast.
	special4 = prefixes(
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	)
	// unicast6 is the only IPv6 space allocated for the public Internet; special6 are the exceptions in it: protocol assignments with
	// Teredo and ORCHID, documentation, 6to4.
	unicast6 = netip.MustParsePrefix("2000::/3")
	special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
	// nat64 addresses contain an IPv4 address in their last four bytes (RFC 6052), which decides.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// translated are the spaces whose addresses end in an IPv4 address to which a gateway may pass packets on: NAT64 with the common prefix
	// and with a network's own (RFC 8215), and the IPv4-compatible addresses (RFC 4291).
	translated = prefixes("64:ff9b::/96", "64:ff9b:1::/48", "::/96")
	// sixToFour addresses have an IPv4 address behind their first two bytes (RFC 3056).
	sixToFour = netip.MustParsePrefix("2002::/16")
	// metadata is the space outside link-local addresses where clouds keep credentials: Azure's WireServer, which has a public address,
	// Alibaba Cloud's and Oracle's addresses, and the unique local addresses of AWS, Google Cloud and Oracle.
	metadata = prefixes("168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::/32", "fd00:c1::a9fe:a9fe/128")
)

func prefixes(texts ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		ps[i] = netip.MustParsePrefix(t)
	}
	return ps
}

// Global reports whether an address is a public unicast address. For IPv4 addresses in IPv6 form (mapped, NAT64), the IPv4 address decides.
func Global(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if a.Is6() {
		return unicast6.Contains(a) && !within(a, special6)
	}
	return !within(a, special4) && !within(a, metadata)
}

// guarded reports whether an address belongs to no network that somebody would allow as a whole: it is where a cloud keeps credentials,
// link-local, or none.
func guarded(a netip.Addr) bool {
	a = a.Unmap()
	switch b := a.As16(); {
	case a.Zone() != "":
		return true
	case a.Is6() && !a.IsLoopback() && within(a, translated):
		a = netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(a):
		a = netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a.IsUnspecified() || a.IsLinkLocalUnicast() || within(a, metadata)
}

func within(a netip.Addr, blocks []netip.Prefix) bool {
	return slices.ContainsFunc(blocks, func(p netip.Prefix) bool { return p.Contains(a) })
}
