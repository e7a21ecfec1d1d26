package limit

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var home = netip.MustParseAddr("198.51.100.7")

func TestBurstPassesThenTheRateHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAddrs(10, false)
		for i := range 40 {
			if !a.Allow(home) {
				t.Fatalf("number %d of the burst was refused", i+1)
			}
		}
		if a.Allow(home) {
			t.Fatal("the burst has no end")
		}
		wait := a.RetryAfter(home)
		if wait != 100*time.Millisecond {
			t.Errorf("retry after %s, want 100ms", wait)
		}
		time.Sleep(wait)
		if !a.Allow(home) || a.Allow(home) {
			t.Error("after the wait exactly one should pass")
		}
		passed := 0
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			if a.Allow(home) {
				passed++
			}
		}
		if passed != 100 {
			t.Errorf("%d passed in 10 s, want 100", passed)
		}
		if !a.Allow(netip.MustParseAddr("198.51.100.8")) {
			t.Error("another address pays for it")
		}
	})
}

func TestAddressesOfOneClientShareABucket(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		shared        bool
	}{
		"IPv6 in one /64":       {"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
		"IPv6 in other /64s":    {"2001:db8:1:2::1", "2001:db8:1:3::1", false},
		"IPv4 and its mapped":   {"203.0.113.5", "::ffff:203.0.113.5", true},
		"IPv4 neighbours":       {"203.0.113.5", "203.0.113.6", false},
		"zones of one link":     {"fe80::1%eth0", "fe80::1%eth1", true},
		"IPv4 and IPv6 of same": {"::1:2:3:4", "1.2.3.4", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAddrs(0.001, false)
			if !a.Allow(netip.MustParseAddr(c.first)) {
				t.Fatal("the first was refused")
			}
			if allowed := a.Allow(netip.MustParseAddr(c.second)); allowed == c.shared {
				t.Errorf("second allowed: %t", allowed)
			}
		})
	}
}

func TestLoopbackIsExemptUnlessConfigured(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"} {
		lo := netip.MustParseAddr(addr)
		exempt, limited := NewAddrs(0.001, false), NewAddrs(0.001, true)
		for range 100 {
			if !exempt.Allow(lo) || exempt.RetryAfter(lo) != 0 {
				t.Fatalf("%s is limited", addr)
			}
		}
		if !limited.Allow(lo) || limited.Allow(lo) || limited.RetryAfter(lo) == 0 {
			t.Errorf("%s is exempt although loopback is to be limited", addr)
		}
	}
}

func TestMemoryIsBoundedAndHeavyUsersStayLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAddrs(0.5, false)
		for a.Allow(home) {
		}
		for i := range uint32(3 * maxEntries) {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], 0x0b000000+i)
			a.Allow(netip.AddrFrom4(b))
			if i%1000 == 0 && a.Allow(home) {
				t.Fatalf("after %d other addresses the limited one passes", i)
			}
		}
		if n := a.b.len(); n > maxEntries {
			t.Errorf("%d entries, want at most %d", n, maxEntries)
		}
		time.Sleep(time.Hour)
		if !a.Allow(home) {
			t.Error("a full bucket refuses")
		}
	})
}

func TestBatchLargerThanTheBucketPassesOnceAndIsPaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewKeys(10)
		if w := k.Take("a", 1000); w != 0 {
			t.Fatalf("a full bucket made the batch wait %s", w)
		}
		if w := k.Take("b", 1); w != 0 {
			t.Error("another key pays for it")
		}
		wait := k.Take("a", 1)
		if want := (1000 - 40 + 1) * 100 * time.Millisecond; wait != want {
			t.Errorf("wait %s, want %s", wait, want)
		}
		time.Sleep(wait)
		if w := k.Take("a", 1); w != 0 {
			t.Errorf("after the wait it is refused for another %s", w)
		}
	})
}

func TestNoRateIsNoLimit(t *testing.T) {
	a := NewAddrs(0, true)
	k := NewKeys(0)
	for range 10_000 {
		if !a.Allow(home) || a.RetryAfter(home) != 0 || k.Take("a", 1000) != 0 {
			t.Fatal("refused")
		}
	}
}

func TestConcurrentTakersGetNoMoreThanTheBurst(t *testing.T) {
	a := NewAddrs(0.0001, false)
	a.b.depth = a.b.cost * 500
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if a.Allow(home) {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 500 {
		t.Errorf("%d passed, want 500", passed.Load())
	}
}

func BenchmarkAllow(b *testing.B) {
	a := NewAddrs(1e9, false)
	for b.Loop() {
		a.Allow(home)
	}
}
