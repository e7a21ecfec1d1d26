package mailboxdb

import (
	"testing"
	"time"
)

func TestATableIsTooLargeOnceItHasNeededLessForAWhile(t *testing.T) {
	const full = 20 << 20
	const aMinute = 60_000 // copies that settle
	for name, c := range map[string]struct {
		size, live, dead, gone int64 // at each measurement; gone counts rows per minute
		every                  time.Duration
		want                   bool
	}{
		"it holds what dies in a minute":              {size: full, dead: 100, gone: 2 * aMinute, every: time.Minute},
		"it is looked at less often":                  {size: full, dead: 100, gone: aMinute / 2, every: 4 * time.Minute, want: true},
		"what is dead cannot be removed":              {size: full, dead: 5 * aMinute, gone: 0, every: time.Minute},
		"it holds much less than it could":            {size: full, live: 10, dead: 100, gone: aMinute, every: time.Minute, want: true},
		"it is small all the same":                    {size: rewriteFrom, every: time.Minute},
		"too many rows would have to be written anew": {size: 10 * full, live: rewriteRows + 1, every: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			at := time.Unix(1000, 0)
			before := &tableSize{looked: at}
			for look := range int64(sizesLooks) {
				if look > 0 && before.tooLarge() {
					t.Errorf("it is too large after %d looks", look)
				}
				at = at.Add(c.every)
				now := tableSize{name: "pending", size: c.size, live: c.live, dead: c.dead, looked: at}
				now.gone = int64(float64((look+1)*c.gone) * c.every.Minutes())
				before = now.after(before)
			}
			if got := before.tooLarge(); got != c.want {
				t.Errorf("too large: %t, want %t", got, c.want)
			}
		})
	}
}
