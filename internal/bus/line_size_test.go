package bus_test

import (
	"strconv"
	"testing"

	"godwit.dev/godwit/internal/bus"
)

// TestInterestsAreSmall holds the memory of what a node subscribes to on a line to a bound, on this node and the other
// together, which share this process.
func TestInterestsAreSmall(t *testing.T) {
	one, other := two(t)
	l, got, _ := line(t, one, bus.Mailboxes)
	from, _, _ := line(t, other, bus.Mailboxes)
	const n = 20_000
	before := used()
	for i := range n {
		if _, err := l.Subscribe("r." + strconv.Itoa(1e10+i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the other node knows the last", func() bool {
		return from.Publish("r."+strconv.Itoa(1e10+n-1), nil) == nil && len(got) > 0
	})
	each := (used() - before) / n
	t.Logf("%d bytes an interest, here and on the other node together", each)
	const most = 1500
	if each > most {
		t.Errorf("an interest costs %d bytes; at most %d", each, most)
	}
}
