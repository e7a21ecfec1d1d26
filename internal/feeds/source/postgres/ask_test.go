package postgres

import "testing"

// While others write much, the slot follows within a tenth of a second: PostgreSQL keeps all log behind it.
func TestFastLogIsAskedForMoreOften(t *testing.T) {
	t.Parallel()
	for grown, want := range map[uint64]int64{0: int64(askEvery), askFast - 1: int64(askEvery), askFast: int64(askSoon), 1 << 40: int64(askSoon)} {
		if got := int64(askAgain(grown)); got != want {
			t.Errorf("after %d bytes more it asks again after %d, want %d", grown, got, want)
		}
	}
}
