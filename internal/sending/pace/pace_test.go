package pace

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// provider accepts cap messages in any second and answers 429 to the rest.
type provider struct {
	cap    int
	album  func(i int) int // the number of messages in the i-th request; nil: one
	recent []time.Time
	taken  int
	denied int
}

func (f *provider) send(now time.Time, n int) bool {
	for len(f.recent) > 0 && now.Sub(f.recent[0]) >= time.Second {
		f.recent = f.recent[1:]
	}
	if len(f.recent)+n > f.cap {
		f.denied++
		return false
	}
	for range n {
		f.recent = append(f.recent, now)
	}
	f.taken += n
	return true
}

func (f *provider) size(i int) int {
	if f.album == nil {
		return 1
	}
	return f.album(i)
}

// drive sends for the time d as fast as the pacer allows, with timers that are up to late too late and messages that travel up to that
// long.
func drive(p *Pacer, f *provider, d, late time.Duration) {
	end := time.Now().Add(d)
	var flying sync.WaitGroup
	var mu sync.Mutex
	for i := 0; time.Now().Before(end); i++ {
		at, _ := p.Slot(time.Now(), time.Hour)
		time.Sleep(time.Until(at) + late*time.Duration(i%4)/3)
		flying.Go(func() {
			seq, wait := p.Depart(time.Now(), f.size(i))
			for wait > 0 {
				time.Sleep(wait)
				seq, wait = p.Depart(time.Now(), f.size(i))
			}
			time.Sleep(late * time.Duration((i+1)%3) / 2)
			mu.Lock()
			ok := f.send(time.Now(), f.size(i))
			mu.Unlock()
			time.Sleep(late * time.Duration(i%5) / 4)
			p.Answered(seq, time.Now())
			if ok {
				p.Succeeded(Try{}, time.Now())
			} else {
				p.Objected(time.Now(), 3*time.Second)
			}
		})
		if p.cap == 0 {
			flying.Wait()
		}
	}
	flying.Wait()
}

func TestAKnownCapIsUsedToThe95thPart(t *testing.T) {
	for _, late := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f := &provider{cap: 30}
			drive(New(30, time.Now()), f, time.Minute, late)
			if f.denied > 0 || f.taken < 60*30*95/100 {
				t.Errorf("timers %s late: %d taken and %d denied in a minute; want at least %d and none", late, f.taken, f.denied, 60*30*95/100)
			}
		})
	}
}

func TestEachMessageOfAnAlbumCounts(t *testing.T) {
	for name, album := range map[string]func(int) int{
		"albums of ten":   func(int) int { return 10 },
		"albums of seven": func(int) int { return 7 }, // which do not divide the cap
		"one in twenty":   func(i int) int { return 1 + i%20/19*9 },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &provider{cap: 30, album: album}
			drive(New(30, time.Now()), f, time.Minute, time.Millisecond)
			if f.denied > 0 || f.taken < 60*30*85/100 {
				t.Errorf("%s: %d messages taken and %d requests denied in a minute; want at least %d and none", name, f.taken, f.denied, 60*30*85/100)
			}
		})
	}
}

func TestAnObjectionPausesAndLowersTheRateUntilItHasGrownBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := New(30, time.Now()), &provider{cap: 30}
		f.cap = 12
		drive(p, f, 10*time.Second, 0)
		if f.denied == 0 || f.denied > 10 {
			t.Errorf("a provider that slows down had to object %d times in 10 s", f.denied)
		}
		f.cap = 30
		drive(p, f, 60*time.Second, 0)
		f.taken, f.denied = 0, 0
		drive(p, f, 20*time.Second, 0)
		if f.taken < 20*30*95/100 || f.denied > 0 {
			t.Errorf("a minute after the dip: %d taken, %d denied in 20 s", f.taken, f.denied)
		}
	})
}

func TestObjectionsToWhatLeftBeforeThePauseCountOnce(t *testing.T) {
	now := time.Now()
	p := New(30, now)
	for range 10 {
		p.Objected(now, 2*time.Second)
	}
	if want := 30 * underCap * cutTo; math.Abs(p.rate-want) > 1e-9 {
		t.Errorf("rate is %.1f after ten objections at once, want %.1f", p.rate, want)
	}
	at, ok := p.Slot(now, time.Second)
	if ok || !at.Equal(now.Add(2*time.Second)) {
		t.Errorf("a slot at %s, %t; want none within a second and the next after two", at.Sub(now), ok)
	}
}

func TestWithoutAKnownCapItStartsSlowlyAndFindsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := New(0, time.Now()), &provider{cap: 1 << 30}
		drive(p, f, time.Second, 0)
		if f.taken < 5000 {
			t.Errorf("%d in the first second of an origin that takes all; want 5000", f.taken)
		}
		p, f = New(0, time.Now()), &provider{cap: 1 << 30}
		drive(p, f, 100*time.Millisecond, 0)
		if f.taken > 100 {
			t.Errorf("%d in the first 100 ms: not a slow start", f.taken)
		}
		p, f = New(0, time.Now()), &provider{cap: 200}
		drive(p, f, 5*time.Minute, 0)
		if rate := float64(f.taken) / 300; rate < 120 || f.denied > 100 {
			t.Errorf("at an origin that takes 200/s: %.0f/s and %d objections in five minutes", rate, f.denied)
		}
	})
}

func TestAHighCapIsKeptAndStartedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 2000
		p, f := New(most, time.Now()), &provider{cap: 1 << 30}
		drive(p, f, 100*time.Millisecond, 0)
		if f.taken > 250 { // including the lost time that the schedule makes up
			t.Errorf("%d in the first 100 ms: not a slow start", f.taken)
		}
		drive(p, f, time.Second, 0)
		f.taken = 0
		drive(p, f, 10*time.Second, 0)
		if rate := float64(f.taken) / 10; rate < 0.9*most || rate > most {
			t.Errorf("%.0f/s at a cap of %d", rate, most)
		}
	})
}

func TestDeferredSendsReturnSpacedOut(t *testing.T) {
	now := time.Now()
	p := New(30, now)
	p.Objected(now, 10*time.Second)
	first := p.Book(now)
	last := first
	for range 290 {
		last = p.Book(now)
	}
	if first.Before(now.Add(10*time.Second)) || last.Sub(first) < 9*time.Second || last.Sub(first) > 11*time.Second {
		t.Errorf("booked from %s to %s after now", first.Sub(now), last.Sub(now))
	}
}

func TestAChatGetsOneMessageASecond(t *testing.T) {
	now := time.Now()
	ps := NewScopes()
	s := Scope{App: "a", Channel: push.Telegram, Name: "42"}
	if _, ok := ps.Chat(s, now); !ok {
		t.Error("the first message has to wait")
	}
	ps.SentTo(s, now, time.Second)
	if at, ok := ps.Chat(s, now.Add(999*time.Millisecond)); ok || !at.Equal(now.Add(time.Second)) {
		t.Errorf("the second may leave after %s", at.Sub(now))
	}
	if _, ok := ps.Chat(s, now.Add(time.Second)); !ok {
		t.Error("the second has to wait longer than a second")
	}
}

func TestScopesThatAreIdleAreForgotten(t *testing.T) {
	now := time.Now()
	ps := NewScopes()
	for i := range maxScopes {
		ps.Of(Scope{Name: string(rune(i))}, push.Pace{}, now)
	}
	now = now.Add(2 * time.Minute)
	ps.Of(Scope{Name: "new"}, push.Pace{}, now)
	if n := len(ps.scopes); n != 1 {
		t.Errorf("%d scopes are remembered after two idle minutes", n)
	}
}

func TestFailureIsTheMessagesOwnIfOthersSucceededSince(t *testing.T) {
	now := time.Now()
	p := New(30, now)
	first := now.Add(time.Second)
	if p.Succeeded(Try{}, now); p.Alive(first) {
		t.Error("what worked before says nothing of now")
	}
	p.Succeeded(Try{}, first.Add(time.Second))
	if !p.Alive(first) {
		t.Error("others went through meanwhile: the place has no trouble, however long ago that was")
	}
	if p.Objected(first.Add(2*time.Second), 0); p.Alive(first) {
		t.Error("the place has objected since")
	}
}
