package redisstream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

func TestPoisonIsSetAsideAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	w := alone(t)
	key := Key(driver, 128)
	w.add(driver, "before", "ttl", "soon")
	w.add(driver, "good1")
	w.Joined(driver)
	w.wantPending(driver, "good1")
	w.add(driver, "bad", "created_at", "then")
	w.add(driver, "good2")
	w.untilRouted(driver, "good2")
	eventually.True(t, "both being deleted", func() bool { return w.left(key) == 2 })
	eventually.True(t, "both being counted", func() bool { return w.counted("poisoned "+key) == 2 })
	_, shard, _ := ClientOf(key)
	q := fmt.Sprintf("godwit:quarantine{%d}", shard)
	list, err := entriesOf(w.redis.Do(t.Context(), w.redis.B().Xrange().Key(q).Start("-").End("+").Build()))
	if err != nil || len(list) != 2 {
		t.Fatalf("the quarantine has %v, %v", list, err)
	}
	for _, want := range []Field{{"quarantine.stream", key}, {"id", "before"}, {"ttl", "soon"}} {
		if !slices.Contains(list[0].fields, want) {
			t.Errorf("%v is not among what was set aside: %v", want, list[0].fields)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if msg := w.poison[0].Error(); !strings.Contains(msg, "ttl") || !strings.Contains(msg, key) {
		t.Errorf("the reason is %q", msg)
	}
}

func TestPoisonThatCannotBeSetAsideStaysAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	do(t, s, "ACL SETUSER limited on >secret ~N* &* +@all")
	w := newWorld(t, strings.Replace(s.URL(), "redis://", "redis://limited:secret@", 1))
	w.add(driver, "bad", "created_at", "")
	w.add(driver, "good")
	w.Joined(driver)
	w.wantPending(driver, "good")
	eventually.True(t, "it being tried", func() bool { return w.counted("skipped poison") > 0 })
	w.ack(driver, "good", 0)
	w.untilLeft(driver, 1)
}

func TestClientsThatDoNotComeBackAreCleanedUp(t *testing.T) {
	t.Parallel()
	w := alone(t)
	w.freeze()
	gone := "00000000-0000-0000-0000-000000000001"
	for i := range 40 {
		w.add(gone, "old"+strconv.Itoa(i), "ttl", "2020-01-01T00:00:00Z")
	}
	w.add(gone, "recent", "ttl", w.now().Add(-30*time.Second).UTC().Format(time.RFC3339Nano))
	w.add(gone, "good")
	w.add(gone, "bad", "ttl", "x")
	eventually.True(t, "old entries being deleted", func() bool {
		// The store's first scan may have run before the entries were added.
		if err := (&orphanage{s: w.Store, me: "test", until: time.Now().Add(time.Hour)}).clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		return w.left(Key(gone, 128)) == 3
	})
	eventually.True(t, "all being counted", func() bool { return w.counted("expired NEW_RIDE_AVAILABLE sent false") == 40 })
}

func TestOneServerCleansUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l, err := dial(t.Context(), []string{s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	a, b := &orphanage{s: &Store{link: l}, me: "a"}, &orphanage{s: &Store{link: l}, me: "b"}
	for range 2 {
		if mine, err := a.own(t.Context()); !mine || err != nil {
			t.Errorf("the first one does not: %v, %v", mine, err)
		}
		if mine, err := b.own(t.Context()); mine || err != nil {
			t.Errorf("the second one does: %v, %v", mine, err)
		}
		a.until = time.Time{} // it renews
	}
	do(t, s, "DEL godwit:orphans")
	if mine, err := b.own(t.Context()); !mine || err != nil {
		t.Errorf("nobody does after the first one is gone: %v, %v", mine, err)
	}
}
