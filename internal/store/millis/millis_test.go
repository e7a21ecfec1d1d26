package millis

import (
	"testing"
	"time"
)

func TestTimesComeBackAndNoneStaysNone(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMilli(1).UTC(), time.UnixMilli(-1).UTC(), time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)} {
		if got := Time(Of(at)); got != at {
			t.Errorf("%s comes back as %s", at, got)
		}
	}
	if Of(time.Time{}) != 0 {
		t.Errorf("no time is stored as %d", Of(time.Time{}))
	}
}
