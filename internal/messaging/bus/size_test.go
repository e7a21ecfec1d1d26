package bus_test

import (
	"runtime"
	"strconv"
	"testing"

	"godwit.dev/godwit/internal/messaging/topic"
)

// TestSubscriptionsAreSmall limits the memory of a subscription, the server's part included. It was measured at 1.2 KB.
func TestSubscriptionsAreSmall(t *testing.T) {
	b := start(t)
	_, stop := subscribe(t, b, "a", "t.first", "")
	defer stop()
	const n = 20_000
	before := used()
	for i := range n {
		if _, err := b.Subscribe("a", "t.rides."+strconv.Itoa(i), "", func(topic.Message) {}, func(int) {}); err != nil {
			t.Fatal(err)
		}
	}
	last, _ := subscribe(t, b, "a", "t.last", "")
	publish(t, b, "a", "t.last", "all is subscribed")
	last.next(t)
	each := (used() - before) / n
	t.Logf("%d bytes a subscription", each)
	const most = 1600
	if each > most {
		t.Errorf("a subscription costs %d bytes; at most %d", each, most)
	}
}

// used is the number of bytes of memory in use by this process.
func used() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
