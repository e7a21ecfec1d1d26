package access

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBoundedCacheForgetsWhatEndsFirstAndWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounded[int, int](100)
		now := time.Now()
		for i := range 90 {
			b.put("shop", i, i, now.Add(time.Hour), now)
		}
		for i := 90; i < 10_000; i++ {
			b.put("shop", i, i, now.Add(time.Minute), now)
			if n := b.len(); n > 100 {
				t.Fatalf("%d entries, want at most 100", n)
			}
		}
		b.put("shop", -1, 7, now.Add(time.Minute), now)
		b.put("shop", -2, 7, now, now)
		if v, ok := b.get("shop", -1, now); !ok || v != 7 {
			t.Errorf("the newest: %d, %t", v, ok)
		}
		if _, ok := b.get("shop", -2, now); ok {
			t.Error("an entry without time was kept")
		}
		time.Sleep(time.Minute)
		if _, ok := b.get("shop", -1, time.Now()); ok {
			t.Error("an entry outlived its time")
		}
	})
}

func TestAnAppWithManyEntriesPushesOutNoOthers(t *testing.T) {
	b := newBounded[int, int](100)
	now := time.Now()
	for i := range 10 {
		b.put("good", i, i, now.Add(time.Minute), now)
	}
	for i := range 10_000 {
		b.put("hostile", i, i, now.Add(time.Hour), now)
	}
	for i := range 10 {
		if _, ok := b.get("good", i, now); !ok {
			t.Errorf("entry %d was pushed out by another app's", i)
		}
	}
	if n := b.len(); n > 100 {
		t.Errorf("%d entries, want at most 100", n)
	}
}
