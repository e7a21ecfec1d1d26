package pace

import (
	"encoding/binary"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
)

func TestObjectionsThatAreRememberedAreBounded(t *testing.T) {
	b, now := &blame{}, time.Now()
	id := func(n int) (id audience.ID) { binary.BigEndian.PutUint64(id[:], uint64(n)); return id }
	for n := range maxObjectors + 10 {
		b.remember(id(n), objector{until: now.Add(time.Minute)}, now)
	}
	if len(b.objectors) != maxObjectors {
		t.Fatalf("%d endpoints are remembered, want %d", len(b.objectors), maxObjectors)
	}
	b.remember(id(0), objector{until: now.Add(time.Hour)}, now)
	if got := b.objectors[id(0)].until; !got.Equal(now.Add(time.Hour)) {
		t.Errorf("one that is remembered is not brought up to date: %s", got.Sub(now))
	}
	late := now.Add(2 * time.Minute)
	b.remember(id(-1), objector{until: late.Add(time.Minute)}, late)
	if len(b.objectors) != 2 { // the new one, and the one that waits for an hour
		t.Errorf("%d are remembered once all others may be tried again", len(b.objectors))
	}
}
