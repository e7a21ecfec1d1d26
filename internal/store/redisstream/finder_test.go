package redisstream

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

// found records the hints of a finder.
type found struct {
	mu     sync.Mutex
	keys   map[string]int
	heard  map[string]int
	missed map[string]int
}

func (f *found) count(m map[string]int, what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return m[what]
}

// find runs a finder until the test ends.
func find(t *testing.T, urls ...string) (*finder, *found) {
	t.Helper()
	l, err := dial(t.Context(), urls)
	if err != nil {
		t.Fatal(err)
	}
	got := &found{keys: map[string]int{}, heard: map[string]int{}, missed: map[string]int{}}
	note := func(m map[string]int) func(string) {
		return func(what string) {
			got.mu.Lock()
			defer got.mu.Unlock()
			m[what]++
		}
	}
	f := &finder{link: l, log: quiet(), told: note(got.keys), heard: note(got.heard), missed: note(got.missed)}
	if err := f.choose(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.run(ctx) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
		l.close()
	})
	return f, got
}

// as returns the server's URL for a user with all permissions but one.
func as(t *testing.T, s *redisserver.Server, but string) string {
	t.Helper()
	do(t, s, "ACL SETUSER limited on >secret ~* &* +@all "+but)
	return (&url.URL{Scheme: "redis", User: url.UserPassword("limited", "secret"), Host: s.Addr()}).String()
}

func TestRedisTellsOfNewEntries(t *testing.T) {
	t.Parallel()
	for way, c := range map[string]struct{ settings, but string }{
		ByTracking: {"", "-config"},
		ByKeyspace: {"Kt", "-client|tracking"},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--notify-keyspace-events", c.settings)
			f, got := find(t, as(t, s, c.but))
			if f.finding() != way {
				t.Fatalf("entries are found by %s", f.finding())
			}
			eventually.True(t, "a first look", func() bool { return got.count(got.missed, s.Addr()) > 0 })
			eventually.True(t, "a hint", func() bool {
				do(t, s, "XADD Na{0} * f v")
				do(t, s, "XADD other{0} * f v")
				return got.count(got.keys, "Na{0}") > 0
			})
			if got.count(got.keys, "other{0}") > 0 {
				t.Error("it tells of keys that are no client's stream")
			}
			before := got.count(got.missed, s.Addr())
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			do(t, s, "ACL SETUSER limited on >secret ~* &* +@all "+c.but)
			eventually.True(t, "another look after the connection was lost", func() bool { return got.count(got.missed, s.Addr()) > before })
			eventually.True(t, "a hint after that", func() bool {
				do(t, s, "XADD Nb{0} * f v")
				return got.count(got.keys, "Nb{0}") > 0
			})
		})
	}
}

func TestAFlushHasEverythingLookedAt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, got := find(t, s.URL())
	eventually.True(t, "a first look", func() bool { return got.count(got.missed, s.Addr()) > 0 })
	before := got.count(got.missed, s.Addr())
	do(t, s, "FLUSHALL")
	eventually.True(t, "another look", func() bool { return got.count(got.missed, s.Addr()) > before })
}

func TestPublishersAreHeardWhereRedisSaysNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f, got := find(t, as(t, s, "-client|tracking -config"))
	if f.finding() != ByPoll {
		t.Fatalf("entries are found by %s", f.finding())
	}
	eventually.True(t, "what the publisher says", func() bool {
		do(t, s, `PUBLISH active-notification '{"streamId":"a","timestamp":"2026-11-20T23:23:58Z"}'`)
		return got.count(got.heard, "a") > 0
	})
	do(t, s, `PUBLISH active-notification nonsense`)
	if f.finding() != ByPublish {
		t.Errorf("entries are found by %s, though publishers say something", f.finding())
	}
}

func TestAClusterTellsOfNewEntriesAfterAMasterWasKilled(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, true)
	f, got := find(t, c.URLs()...)
	keys := []string{"Na{0}", "Na{1}", "Na{2}", "Na{3}", "Na{4}", "Na{5}"}
	add := func(key string) {
		for _, s := range append(c.Masters, c.Replicas...) {
			if _, err := s.Do("XADD " + key + " * f v"); err == nil {
				return
			}
		}
	}
	for _, key := range keys {
		eventually.True(t, "a hint of "+key, func() bool {
			add(key)
			return got.count(got.keys, key) > 0
		})
	}
	c.Masters[1].Kill()
	if err := c.Promote(1); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		before := got.count(got.keys, key)
		eventually.True(t, "a hint of "+key+" after a master was killed", func() bool {
			add(key)
			return got.count(got.keys, key) > before
		})
	}
	if n := got.count(got.missed, c.Replicas[1].Addr()); n == 0 {
		t.Error("nobody was told to look at what the new master has")
	}
	eventually.True(t, "all masters answering", func() bool { return f.link.ping(t.Context()) == nil })
}

func TestURLsThatAreNoneAreRefusedWithoutTheirPasswords(t *testing.T) {
	for _, u := range []string{"", "redis", "http://u:secret@h", "redis://u:secret@h:port", "redis://u:secret@h:1/a/b", "redis://u:secret@h:1/%zz"} {
		_, err := options([]string{u})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", u, err)
		}
	}
}

func TestASlashBehindTheHostNamesNoDatabase(t *testing.T) {
	for url, db := range map[string]int{"redis://h:1": 0, "redis://h:1/": 0, "redis://h:1/3": 3, "redis://h:1/3/": 3} {
		if o, err := options([]string{url}); err != nil || o.SelectDB != db {
			t.Errorf("%s: database %d, %v", url, o.SelectDB, err)
		}
	}
}
