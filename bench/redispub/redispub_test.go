package redispub_test

import (
	"errors"
	"testing"
	"time"

	"godwit.dev/godwit/bench/redispub"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

func TestTimesAreWrittenAsHaskellShowsThem(t *testing.T) {
	at := time.Date(2026, 11, 20, 23, 23, 58, 654_000_000, time.UTC)
	for want, got := range map[string]string{
		"2026-11-20 23:23:58.654 UTC":          redispub.Haskell(at, 0),
		"2026-11-20 23:23:58.654123456789 UTC": redispub.Haskell(at, 123_456_789),
		"2026-11-20 23:23:58 UTC":              redispub.Haskell(at.Truncate(time.Second), 0),
		"2026-11-20T23:23:58.654Z":             redispub.ISO(at),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestKeysNameTheClientAndItsShard(t *testing.T) {
	for client, want := range map[string]string{
		"ffffffff-ffff-ffff-ffff-ffffffffffff": "Nffffffff-ffff-ffff-ffff-ffffffffffff{126}",
		"00000000-0000-0001-0000-000000000082": "N00000000-0000-0001-0000-000000000082{3}",
		"a-b-c-d":                              "Na-b{0}",
		"driver":                               "Ndriver{0}",
	} {
		if got := redispub.Key(client, 128); got != want {
			t.Errorf("the key of %s is %s, want %s", client, got, want)
		}
	}
}

// TestAClusterIsFollowed: the publisher follows a cluster's redirections to other nodes.
func TestAClusterIsFollowed(t *testing.T) {
	c := redistest.StartCluster(t, false)
	p := redispub.NewPublisher([]string{c.Masters[0].Addr()}, 128)
	defer p.Close()
	entry := redispub.Entry{ID: "ride", TTL: redispub.ISO(time.Now().Add(time.Hour))}
	for i, client := range []string{
		"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002", "00000000-0000-0000-0000-000000000003",
		"00000000-0000-0000-0000-000000000004", "00000000-0000-0000-0000-000000000005", "00000000-0000-0000-0000-000000000006",
	} {
		if id, err := p.Publish(t.Context(), client, &entry); err != nil || id == "" {
			t.Fatalf("publish %d: %q, %v", i, id, err)
		}
		key := redispub.Key(client, 128)
		if n, err := p.Do(t.Context(), key, "XLEN", key); err != nil || n != int64(1) {
			t.Errorf("%s has %v entries, %v", key, n, err)
		}
		if ttl, err := p.Do(t.Context(), key, "TTL", key); err != nil || ttl.(int64) <= 0 {
			t.Errorf("%s expires in %v s, %v", key, ttl, err)
		}
	}
	var refused redispub.Refusal
	if _, err := p.Do(t.Context(), "x", "NOSUCH"); !errors.As(err, &refused) {
		t.Errorf("a command that Redis does not know: %v", err)
	}
}
