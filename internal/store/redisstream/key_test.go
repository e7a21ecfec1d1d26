package redisstream

import (
	"strings"
	"testing"
)

func TestShardsAreThoseOfPublishers(t *testing.T) {
	for _, c := range []struct {
		client     string
		of128, of5 int
	}{
		{"f8f6d2a4-3b5c-4c1e-9f7a-0d2b4c6e8f10", 46, 1},
		{"00000000-0000-0000-0000-000000000001", 1, 1},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", 126, 4}, // the halves' sum does not fit into 64 bits
		{"D3B07384-D9A0-4F3A-8B1C-2D3E4F5A6B7C", 54, 1},
		{"driver-7", 0, 0},
		{"f8f6d2a43b5c4c1e9f7a0d2b4c6e8f10", 0, 0},
		{"f8f6d2a4-3b5c-4c1e-9f7a-0d2b4c6e8f1g", 0, 0},
		{"", 0, 0},
	} {
		if got := ShardOf(c.client, 128); got != c.of128 {
			t.Errorf("shard of %s of 128 is %d, want %d", c.client, got, c.of128)
		}
		if got := ShardOf(c.client, 5); got != c.of5 {
			t.Errorf("shard of %s of 5 is %d, want %d", c.client, got, c.of5)
		}
	}
}

func TestKeysNameTheirClients(t *testing.T) {
	for _, c := range []struct{ client, key, named string }{
		{"f8f6d2a4-3b5c-4c1e-9f7a-0d2b4c6e8f10", "Nf8f6d2a4-3b5c-4c1e-9f7a-0d2b4c6e8f10{46}", "f8f6d2a4-3b5c-4c1e-9f7a-0d2b4c6e8f10"},
		{"driver", "Ndriver{0}", "driver"},
		{"a-b-c-d", "Na-b{0}", "a-b"},
		{"a-b-c", "Na-b-c{0}", "a-b-c"},
		{"a-b-c-d-e", "Na-b-c-d-e{0}", "a-b-c-d-e"},
		{"odd{1}", "Nodd{1}{0}", "odd{1}"},
	} {
		key := Key(c.client, 128)
		if key != c.key {
			t.Errorf("key of %s is %s, want %s", c.client, key, c.key)
		}
		client, shard, ok := ClientOf(key)
		if !ok || client != c.named || shard != ShardOf(c.client, 128) {
			t.Errorf("%s is of %s in shard %d (%v)", key, client, shard, ok)
		}
	}
	for _, key := range []string{"", "N", "N{3}", "NS:token", "NS:a{3}", "Na", "Na{}", "Na{x}", "Na{03}", "Na{-1}", "Na{+1}", "a{3}", "Na{3}x", "Na{99999999999}"} {
		if client, _, ok := ClientOf(key); ok {
			t.Errorf("%q is taken for a stream of %s", key, client)
		}
	}
}

func TestEntryIDs(t *testing.T) {
	for _, s := range []string{"0-0", "1732147438654-3", "18446744073709551615-18446744073709551615"} {
		id, err := ParseEntryID(s)
		if err != nil || id.String() != s {
			t.Errorf("%s becomes %s, %v", s, id, err)
		}
	}
	for _, s := range []string{"", "1", "-", "1-", "-1", "1-2-3", "a-1", "1- 2", "18446744073709551616-0"} {
		if id, err := ParseEntryID(s); err == nil {
			t.Errorf("%q is taken for %s", s, id)
		}
	}
	a, b := EntryID{5, 1}, EntryID{5, 2}
	if a.Compare(b) >= 0 || b.Compare(a) <= 0 || a.Compare(a) != 0 || a.Compare(EntryID{6, 0}) >= 0 {
		t.Error("ids are not in the order in which they were given out")
	}
	if a.next() != b || (EntryID{5, 1<<64 - 1}).next() != (EntryID{6, 0}) {
		t.Error("what follows an id is wrong")
	}
}

func FuzzClientOf(f *testing.F) {
	f.Add("Nf8f6d2a4-3b5c-4c1e-9f7a-0d2b4c6e8f10{3}")
	f.Add("NS:token")
	f.Add("N{}{0}")
	f.Fuzz(func(t *testing.T, key string) {
		client, shard, ok := ClientOf(key)
		if !ok {
			return
		}
		if shard < 0 || client == "" || !strings.HasPrefix(key, "N"+client+"{") {
			t.Errorf("%q is of %q in shard %d", key, client, shard)
		}
		again := Key(client, 128)
		if named, _, ok := ClientOf(again); !strings.HasPrefix(again, tokenPrefix) && (!ok || named != Recipient(client)) {
			t.Errorf("the key of %q is of %q (%v)", client, named, ok)
		}
	})
}
