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
	// metadata is the space outside link-local addresses where clouds keep credentials: Azure's WireServer, which has a public address, and
	// the unique local addresses of AWS and Google Cloud.
	metadata = prefixes("168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::/32")
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

func within(a netip.Addr, blocks []netip.Prefix) bool {
	return slices.ContainsFunc(blocks, func(p netip.Prefix) bool { return p.Contains(a) })
}
