// Package limit limits rates: of connections and hellos by address, of publishes by API key. Its memory is bounded, for any number of
// addresses.
package limit

import (
	"math"
	"net/netip"
	"time"
)

// burstSeconds is the size of a bucket in seconds of its rate: an office behind one address reconnects at once.
const burstSeconds = 4

func burstOf(perSecond float64) int { return max(1, int(math.Ceil(perSecond*burstSeconds))) }

// Addrs limits by client address. A nil *Addrs limits nothing.
type Addrs struct {
	b        *buckets[netip.Prefix]
	loopback bool
}

// NewAddrs allows each address perSecond actions, with bursts of up to four seconds' worth. If perSecond is 0 or less, it returns nil.
// Loopback is exempt unless limitLoopback is set.
func NewAddrs(perSecond float64, limitLoopback bool) *Addrs {
	if !(perSecond > 0) {
		return nil
	}
	return &Addrs{b: newBuckets[netip.Prefix](perSecond, burstOf(perSecond)), loopback: limitLoopback}
}

// Allow takes a token from the address's bucket; it reports false if there is none.
func (a *Addrs) Allow(addr netip.Addr) bool {
	if a == nil || a.exempt(addr) {
		return true
	}
	return a.b.take(Client(addr), 1) == 0
}

// RetryAfter returns the time until Allow would return true.
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

// Client returns the network that counts as one client: an IPv6 customer can choose addresses from at least a /64.
func Client(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // cannot fail: the address is valid, and bits is within its length
	return p
}

// Keys limits by API key. A nil *Keys limits nothing.
type Keys struct{ b *buckets[string] }

// NewKeys allows each key perSecond actions, with bursts of up to four seconds' worth. If perSecond is 0 or less, it returns nil.
func NewKeys(perSecond float64) *Keys {
	if !(perSecond > 0) {
		return nil
	}
	return &Keys{b: newBuckets[string](perSecond, burstOf(perSecond))}
}

// Take takes n tokens from the key's bucket and returns 0, or takes none and returns how long to wait. A batch larger than the bucket
// passes when the bucket is full.
func (k *Keys) Take(key string, n int) (wait time.Duration) {
	if k == nil || n <= 0 {
		return 0
	}
	return k.b.take(key, n)
}
