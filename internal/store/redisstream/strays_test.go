package redisstream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

// randomUUID is a client's id as publishers draw it.
func randomUUID() string {
	hi, lo := rand.Uint64(), rand.Uint64()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&(1<<48-1))
}

// sharded opens a store on a server of its own whose streams are spread over a number of shards.
func sharded(t *testing.T, shards int) *world {
	t.Helper()
	url := redistest.Start(t).URL()
	w := publisherOnly(t, url)
	w.shards = shards
	w.open(url)
	return w
}

func TestBothStreamsOfAClientAreReadIfShardsAreNoPowerOfTwo(t *testing.T) {
	t.Parallel()
	w := sharded(t, 100)
	clients := make([]string, 400)
	two := 0
	for i := range clients {
		clients[i] = randomUUID()
		if otherKey(clients[i], w.shards) != "" {
			two++
		}
	}
	if two < 100 {
		t.Fatalf("%d of %d clients have two streams; about half were expected", two, len(clients))
	}
	publish := func(client, id string) {
		t.Helper()
		for name, key := range map[string]string{id + " with wrap-around": Key(client, w.shards), id + " without": otherKey(client, w.shards)} {
			if key == "" {
				continue
			}
			if _, err := w.publishTo(key, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(client string, ids ...string) {
		t.Helper()
		var list []string
		for _, id := range ids {
			list = append(list, id+" with wrap-around")
			if otherKey(client, w.shards) != "" {
				list = append(list, id+" without")
			}
		}
		eventually.True(t, fmt.Sprintf("%s having %q", client, list), func() bool {
			for _, it := range w.pending(client).Items {
				if !slices.Contains(list, it.N.ID) {
					t.Fatalf("%s got %s", client, it.N.ID)
				}
			}
			return len(w.pending(client).Items) == len(list)
		})
	}
	for _, client := range clients {
		publish(client, "before")
		w.Joined(client)
	}
	for _, client := range clients {
		want(client, "before")
		publish(client, "after")
	}
	for _, client := range clients {
		want(client, "before", "after")
		if other := otherKey(client, w.shards); other != "" {
			eventually.True(t, other+" being empty", func() bool { return w.left(other) == 0 })
		}
	}
}

func TestMovedEntriesStayAsLongAsInTheirOwnStream(t *testing.T) {
	t.Parallel()
	w := sharded(t, 5)
	b := w.redis.B
	for _, c := range []struct {
		name     string
		from, to int64 // seconds; -1: does not expire, -2: does not exist
		least    int64 // of the stream that is read
		most     int64
	}{
		{"a new stream gets the expiry", 1000, -2, 900, 1000},
		{"a shorter expiry is extended", 1000, 100, 900, 1000},
		{"a longer expiry stays", 100, 1000, 900, 1000},
		{"a stream that does not expire stays so", 1000, -1, -1, -1},
		{"entries that do not expire go on so", -1, 100, -1, -1},
	} {
		client := randomUUID()
		for otherKey(client, w.shards) == "" {
			client = randomUUID()
		}
		set := func(key string, seconds int64) {
			t.Helper()
			if seconds == -2 {
				return
			}
			if _, err := w.publishTo(key, "an entry of "+key); err != nil {
				t.Fatal(err)
			}
			cmd := b().Expire().Key(key).Seconds(seconds).Build()
			if seconds == -1 {
				cmd = b().Persist().Key(key).Build()
			}
			if err := w.redis.Do(t.Context(), cmd).Error(); err != nil {
				t.Fatal(err)
			}
		}
		set(otherKey(client, w.shards), c.from)
		set(Key(client, w.shards), c.to)
		w.Joined(client)
		eventually.True(t, "the move", func() bool { return w.left(otherKey(client, w.shards)) == 0 })
		left, err := w.redis.Do(t.Context(), b().Ttl().Key(Key(client, w.shards)).Build()).AsInt64()
		if err != nil || left < c.least || left > c.most {
			t.Errorf("%s: it stays for %d s, %v; want %d to %d", c.name, left, err, c.least, c.most)
		}
	}
}
