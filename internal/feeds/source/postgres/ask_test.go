package postgres

import (
	"testing"
	"time"
)

// While others write much, the slot follows within a tenth of a second: PostgreSQL keeps all log behind it.
func TestFastLogIsAskedForMoreOften(t *testing.T) {
	t.Parallel()
	for grown, want := range map[uint64]int64{0: int64(askEvery), askFast - 1: int64(askEvery), askFast: int64(askSoon), 1 << 40: int64(askSoon)} {
		if got := int64(askAgain(grown)); got != want {
			t.Errorf("after %d bytes more it asks again after %d, want %d", grown, got, want)
		}
	}
}

// Entries wait for each note, so a source that stores all the time notes rarely.
func TestNotesAreRareWhileEntriesCome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		since time.Duration
		idle  bool
		want  bool
	}{{noteEvery, true, false}, {noteEvery + 1, true, true}, {noteEvery + 1, false, false}, {noteBusy + 1, false, true}} {
		if got := noteDue(c.since, c.idle); got != c.want {
			t.Errorf("after %s, idle %t: %t", c.since, c.idle, got)
		}
	}
}
