package fair

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneAppLeavesPlacesForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(8, 100, func(f func()) { f() })
		begun := make(map[string]int)
		var mu sync.Mutex
		hang := func(app string) {
			q.Add(app, func() {
				mu.Lock()
				begun[app]++
				mu.Unlock()
				time.Sleep(time.Hour)
			})
		}
		for range 50 {
			hang("hostile")
		}
		for _, app := range []string{"a", "b", "c"} {
			hang(app)
		}
		synctest.Wait()
		mu.Lock()
		if begun["hostile"] != 4 || begun["a"] != 1 || begun["b"] != 1 || begun["c"] != 1 {
			t.Errorf("at work are %v, want half of the places for the first and one for each other", begun)
		}
		mu.Unlock()
		q.Wait()
		if len(q.apps) != 0 || begun["hostile"] != 50 {
			t.Errorf("%d apps are kept, %d of 50 were done", len(q.apps), begun["hostile"])
		}
	})
}

func TestAppsTakeTurnsAndEachKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var did []string
		q := NewQueue(2, 100, func(what string) {
			mu.Lock()
			did = append(did, what)
			mu.Unlock()
			time.Sleep(time.Second)
		})
		for _, what := range []string{"a1", "a2", "a3"} {
			q.Add("a", what)
		}
		q.Add("b", "b1")
		q.Add("b", "b2")
		q.Wait()
		ofA := slices.DeleteFunc(slices.Clone(did), func(s string) bool { return s[0] != 'a' })
		if !slices.Equal(ofA, []string{"a1", "a2", "a3"}) || slices.Index(did, "b1") > 2 {
			t.Errorf("done in the order %v", did)
		}
	})
}

func TestWaitersAreBoundedByApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(2, 3, func(int) { time.Sleep(time.Hour) })
		taken := 0
		for range 10 {
			if q.Add("hostile", 0) {
				taken++
			}
		}
		if taken != 1+3 {
			t.Errorf("%d were taken, want one at work and three that wait", taken)
		}
		if !q.Add("good", 0) {
			t.Error("another app was refused")
		}
		q.Wait()
	})
}

func TestOneAppNeverHoldsAll(t *testing.T) {
	s := NewShares(128)
	n := int64(0)
	for s.Try("hostile", 8) {
		n += 8
	}
	if n != 64 {
		t.Errorf("one app alone holds %d of 128, want half", n)
	}
	if !s.Try("good", 32) || s.Try("good", 32) {
		t.Error("the next app may have a part of what is left, and not all of it")
	}
	if !s.Try("third", 32) || s.Try("fourth", 1) {
		t.Error("who holds nothing may have what is left, and no more")
	}
}

func TestReturnedShareGoesToTheNextWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(10)
		if !s.Try("a", 10) {
			t.Fatal("refused while all was free")
		}
		got := make(chan error)
		go func() { got <- s.Take(t.Context(), "b", 5) }()
		synctest.Wait()
		s.Give("a", 10)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if s.used != 5 || len(s.holds) != 1 {
			t.Errorf("%d are used by %v", s.used, s.holds)
		}
	})
}
