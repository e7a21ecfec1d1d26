package pace

import (
	"fmt"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
)

// every makes of1000 in 1,000 endpoints sick, spread as if by chance.
func every(of1000 int) func(int) bool {
	return func(i int) bool { return i*7919%1000 < of1000 }
}

// shares returns the numbers of sick endpoints per thousand, for places that have limits of their own.
func shares() []int {
	if testing.Short() {
		return []int{10}
	}
	return []int{0, 10, 50}
}

// seeds is the number of runs of each simulation that must succeed.
const seeds = 3

// retryAfter lists the waits that places and endpoints demand; 0: none.
var retryAfter = []time.Duration{0, time.Second, 5 * time.Second, time.Minute}

func TestSickEndpointsWaitAlone(t *testing.T) {
	const n = 1500
	for _, c := range []struct {
		name string
		sick func(int) bool
	}{
		{"one", func(i int) bool { return i == 700 }},
		{"1 %", every(10)},
		{"5 %", every(50)},
		{"20 %", every(200)},
		{"the first 15", func(i int) bool { return i < 15 }},
	} {
		healthy := 0
		for i := range n {
			if !c.sick(i) {
				healthy++
			}
		}
		for _, asks := range retryAfter {
			for seed := range uint64(seeds) {
				s := (&simulation{place: open{}, asks: asks, sick: c.sick}).begin(seed)
				first := s.campaign(n)
				s.until(20 * time.Second)
				second := s.campaign(n) // begins while the first campaign still retries the sick endpoints
				s.until(40 * time.Second)
				for name, sent := range map[string]*campaign{"first": first, "second": second} {
					if len(sent.done) != healthy || sent.done[healthy-1] > 15*time.Second || sent.done[0] > time.Second {
						t.Errorf("%s sick, Retry-After %s: %d of %d healthy have the %s campaign, after %s", c.name, asks, len(sent.done), healthy, name, sent.done)
					}
				}
			}
		}
	}
}

func TestThreeSickOfFiveHoldNobodyUp(t *testing.T) {
	for _, asks := range retryAfter {
		s := (&simulation{place: open{}, asks: asks, sick: func(i int) bool { return i < 3 }}).begin(1)
		first := s.campaign(5)
		s.until(30 * time.Second)
		second := s.campaign(500)
		s.until(40 * time.Second)
		if len(first.done) != 2 || first.done[1] > time.Second || len(second.done) != 497 || second.done[496] > 2*time.Second {
			t.Errorf("Retry-After %s: the first campaign's were taken after %s, %d of the second's", asks, first.done, len(second.done))
		}
	}
}

func TestUnannouncedCapIsKeptAndUsed(t *testing.T) {
	always := func(n int) func(time.Duration) int { return func(time.Duration) int { return n } }
	for _, c := range []struct {
		name         string
		cap          int
		place        func() place
		used, denied float64 // percent
	}{
		{"200 in any second", 200, func() place { return &sliding{cap: always(200)} }, 80, 3},
		{"200 in each second of the clock", 200, func() place { return &windowed{cap: 200} }, 80, 3},
		{"a bucket that 200 drip into", 200, func() place { return &bucket{rate: 200, room: 400, level: 400} }, 80, 3},
		{"30 in any second", 30, func() place { return &sliding{cap: always(30)} }, 75, 6},
		{"30 in each second of the clock", 30, func() place { return &windowed{cap: 30} }, 75, 6},
	} {
		for _, sick := range shares() {
			for _, asks := range []time.Duration{0, 5 * time.Second} {
				s := (&simulation{place: c.place(), asks: asks, sick: every(sick)}).begin(1)
				s.campaign(c.cap * 260)
				s.until(4 * time.Minute)
				steady := s.between(time.Minute, 4*time.Minute)
				used, denied := share(steady.taken, c.cap*180), share(steady.denied, steady.asked)
				what := fmt.Sprintf("%s, %d of 1000 sick, Retry-After %s: %.1f %% is used, %.2f %% are objected to", c.name, sick, asks, used, denied)
				if t.Log(what); used < c.used || denied > c.denied || s.gaveUp > 0 {
					t.Errorf("%s; want %.0f %% and at most %.0f %%; %d given up", what, c.used, c.denied, s.gaveUp)
				}
			}
		}
	}
}

func TestADipIsFollowedAndLeft(t *testing.T) {
	for _, sick := range shares() {
		for _, asks := range []time.Duration{0, 5 * time.Second} {
			s := (&simulation{asks: asks, sick: every(sick), place: &sliding{cap: func(now time.Duration) int {
				if now > time.Minute && now < 3*time.Minute {
					return 12
				}
				return 200
			}}}).begin(1)
			s.campaign(60_000)
			s.until(5 * time.Minute)
			dip, after := s.between(time.Minute, 3*time.Minute), s.between(4*time.Minute, 5*time.Minute)
			t.Logf("%d of 1000 sick, Retry-After %s: %d taken and %d objections in two minutes of 12/s, %.0f/s a minute later", sick, asks, dip.taken, dip.denied, float64(after.taken)/60)
			if dip.taken < 120*12/3 || dip.denied > 120*8 || after.taken < 60*80 || s.gaveUp > 0 {
				t.Errorf("%d of 1000 sick, Retry-After %s: %+v in the dip, %+v in the second minute after it, %d given up", sick, asks, dip, after, s.gaveUp)
			}
		}
	}
}

func TestAnOutageIsLeftInPeaceAndLosesNobody(t *testing.T) {
	const n, lasts = 3000, 5 * time.Minute
	for _, from := range []time.Duration{0, 400 * time.Millisecond} {
		for _, sick := range []int{0, 10} {
			for _, asks := range []time.Duration{0, time.Second, 30 * time.Second} {
				s := (&simulation{place: open{from: from, to: from + lasts}, asks: asks, sick: every(sick)}).begin(1)
				c := s.campaign(n)
				s.until(lasts + 2*time.Minute)
				asked := s.between(2*time.Second, lasts).asked
				t.Logf("from %s, %d of 1000 sick, Retry-After %s: %d requests in it", from, sick, asks, asked)
				if want := n - n*sick/1000; len(c.done) != want || asked > 1500 || s.gaveUp > 0 {
					t.Errorf("from %s, %d of 1000 sick, Retry-After %s: %d of %d taken two minutes after it, %d requests in it, %d given up", from, sick, asks, len(c.done), want, asked, s.gaveUp)
				}
			}
		}
	}
}

// at is an attempt at the i-th endpoint.
func at(i int, left time.Time) Try { return Try{Endpoint: audience.ID{byte(i), 1}, Left: left} }

func TestAnEndpointThatObjectsIsHeldAloneAndUntilItWantsMore(t *testing.T) {
	now := time.Now()
	p := New(0, now)
	p.ObjectedAt(at(1, now), now, 5*time.Second)
	if until, held := p.Resting(at(1, now).Endpoint, now); !held || !until.Equal(now.Add(5*time.Second)) {
		t.Errorf("held: %t, for %s", held, until.Sub(now))
	}
	if _, held := p.Resting(at(2, now).Endpoint, now); held {
		t.Error("another endpoint is held as well")
	}
	if _, held := p.Resting(at(1, now).Endpoint, now.Add(5*time.Second)); held {
		t.Error("it is still held when it wants the next")
	}
	if _, paused := p.Paused(now); paused || !p.slow {
		t.Error("all others wait or go slower for one")
	}
	p.Succeeded(at(1, now), now)
	if _, held := p.Resting(at(1, now).Endpoint, now); held {
		t.Error("it is held although it has taken a message")
	}
}

func TestALimitOfOneEndpointIsNeverTheScopes(t *testing.T) {
	now := time.Now()
	p := New(0, now)
	for i := range 10 * enough {
		p.Rests(at(i, now), now, time.Minute)
	}
	if until, held := p.Resting(at(1, now).Endpoint, now); !held || !until.Equal(now.Add(time.Minute)) {
		t.Errorf("held: %t, for %s", held, until.Sub(now))
	}
	if _, paused := p.Paused(now); paused || !p.slow || p.blame.score != 0 {
		t.Error("all others wait or go slower")
	}
	p.Succeeded(at(1, now), now)
	if _, held := p.Resting(at(1, now).Endpoint, now); held {
		t.Error("it is held although it has taken a message")
	}
}

func TestOnlyDifferentEndpointsMakeAVerdict(t *testing.T) {
	now := time.Now()
	p := New(0, now)
	for i := range 100 {
		now = now.Add(time.Second)
		p.ObjectedAt(at(i%(enough-1), now), now, time.Second)
	}
	if !p.slow {
		t.Errorf("%d endpoints that object 25 times each made a verdict", enough-1)
	}
	p.ObjectedAt(at(enough, now), now, time.Second)
	if p.slow {
		t.Errorf("%d endpoints objected and nobody took anything: no verdict", enough)
	}
	rate := p.rate
	for i := range enough {
		p.ObjectedAt(at(20+i, now.Add(-time.Millisecond)), now, time.Second)
	}
	if p.rate != rate {
		t.Error("what had left before the verdict made another")
	}
	now = now.Add(time.Second)
	for i := range enough {
		p.ObjectedAt(at(30+i, now), now, time.Second)
	}
	if _, paused := p.Paused(now); !paused {
		t.Error("nothing is taken at the lower rate either, and the scope is not held")
	}
}

func TestRepeatedObjectionWhileOthersSucceedIsTheEndpointsOwn(t *testing.T) {
	now := time.Now()
	p := New(0, now)
	for i := range 50 {
		p.ObjectedAt(at(i, now), now, time.Second)
		for j := range 20 {
			p.Succeeded(at(100+j, now), now)
		}
		now = now.Add(time.Millisecond)
	}
	rate := p.rate
	for range 10 {
		now = now.Add(2 * time.Second)
		for i := range 50 {
			p.ObjectedAt(at(i, now), now, time.Second)
		}
	}
	if _, paused := p.Paused(now); paused || p.rate < rate {
		t.Error("fifty sick endpoints hold up a scope to which nothing else is sent")
	}
}
