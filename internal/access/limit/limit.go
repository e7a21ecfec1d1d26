// Package limit limits how often something may happen: connections and hellos by address, publishes by API key. Its
// memory is limited too, for any number of addresses.
package limit

import (
	"math"
	"net/netip"
	"time"
)

// burstSeconds is how much of its rate a bucket holds: an office behind one address reconnects at once.
const burstSeconds = 4

func burstOf(perSecond float64) int { return max(1, int(math.Ceil(perSecond*burstSeconds))) }

// Addrs limits by client address. A nil one limits nothing.
type Addrs struct {
	b        *buckets[netip.Prefix]
	loopback bool
}

// NewAddrs allows each address so many per second, with bursts of four seconds' worth; 0 or less returns nil.
// Loopback is exempt unless limitLoopback.
func NewAddrs(perSecond float64, limitLoopback bool) *Addrs {
	if !(perSecond > 0) {
		return nil
	}
	return &Addrs{b: newBuckets[netip.Prefix](perSecond, burstOf(perSecond)), loopback: limitLoopback}
}

// Allow takes one from the address's bucket and reports false if there is none.
func (a *Addrs) Allow(addr netip.Addr) bool {
	if a == nil || a.exempt(addr) {
		return true
	}
	return a.b.take(Client(addr), 1) == 0
}

// RetryAfter is the time until Allow would return true.
func (a *Addrs) RetryAfter(addr netip.Addr) time.Duration {
	if a == nil || a.exempt(addr) {
		return 0
	}
	return a.b.wait(Client(addr), 1)
}

func (a *Addrs) exempt(addr netip.Addr) bool { return exempt(addr, a.loopback) }

func exempt(addr netip.Addr, loopback bool) bool {
	return !addr.IsValid() || !loopback && addr.Unmap().IsLoopback()
}

// Client is the network that an address counts for: an IPv6 customer has at least a /64 to choose addresses from.
func Client(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // cannot fail: the address is valid and the bits fit it
	return p
}

// Keys limits by API key. A nil one limits nothing.
type Keys struct{ b *buckets[string] }

// NewKeys allows each key so many per second, with bursts of four seconds' worth; 0 or less returns nil.
func NewKeys(perSecond float64) *Keys {
	if !(perSecond > 0) {
		return nil
	}
	return &Keys{b: newBuckets[string](perSecond, burstOf(perSecond))}
}

// Take takes n from the key's bucket and returns 0, or takes none and returns how long to wait. A batch larger than
// the bucket passes when the bucket is full.
func (k *Keys) Take(key string, n int) (wait time.Duration) {
	if k == nil || n <= 0 {
		return 0
	}
	return k.b.take(key, n)
}
