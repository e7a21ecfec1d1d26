package sink

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// ends records n notifications, numbered from from, that were each acknowledged took after they were stored. It returns how many of them
// have a known latency.
func ends(t *testing.T, l *begun, from, n int, stored time.Time, took time.Duration) (known int) {
	t.Helper()
	evs := make([]event.Event, n)
	for i := range evs {
		evs[i] = event.Event{Type: event.Acked, Note: fmt.Sprint("n", from+i), To: fmt.Sprint("to", i%7), At: stored.Add(took)}
	}
	l.fill(evs)
	for i := range evs {
		if !evs[i].TookKnown {
			continue
		}
		if known++; evs[i].Took != took {
			t.Fatalf("%s took %s, want %s", evs[i].Note, evs[i].Took, took)
		}
	}
	return known
}

func starts(l *begun, from, n int, at time.Time) {
	evs := make([]event.Event, n)
	for i := range evs {
		evs[i] = event.Event{Type: event.Stored, Note: fmt.Sprint("n", from+i), To: fmt.Sprint("to", i%7), At: at}
	}
	l.fill(evs)
}

func TestHowLongItTookIsKnownOfTheNewestHundredThousands(t *testing.T) {
	sets := thorough.Rounds(startedSets/32, startedSets)
	l, many := begun{sets: make([]startedSet, sets)}, 200_000*sets/startedSets
	at := time.UnixMilli(1_700_000_000_000)
	if known := ends(t, &l, 0, 100, at, time.Second); known != 0 {
		t.Errorf("of %d that were never stored it is known", known)
	}
	for round := range 5 {
		at = at.Add(time.Minute)
		starts(&l, round*many, many, at)
		if known := ends(t, &l, round*many, many, at, 40*time.Millisecond); known < many*98/100 {
			t.Errorf("round %d: of the newest %d it is known of %d", round, many, known)
		}
	}
	starts(&l, 4*many, many, at) // the same events again, as when a batch is gathered anew
	if known := ends(t, &l, 4*many, many, at, 0); known < many*98/100 {
		t.Errorf("told again, it is known of %d", known)
	}
	if known := ends(t, &l, 0, many, at.Add(-4*time.Minute), time.Hour); known > many/10 {
		t.Errorf("of the oldest it is known of %d", known)
	}
	early := []event.Event{{Type: event.Acked, Note: fmt.Sprint("n", 5*many-1), To: fmt.Sprint("to", (many-1)%7), At: at.Add(-time.Second)}}
	if l.fill(early); early[0].Took != 0 || !early[0].TookKnown {
		t.Errorf("what another clock put before the storing took %s, %t", early[0].Took, early[0].TookKnown)
	}
}

func TestLaterEventsHaveTheCategoryThatWasStored(t *testing.T) {
	var l begun
	at := time.UnixMilli(1_700_000_000_000)
	of := func(typ event.Type, note, category string) event.Event {
		evs := []event.Event{{Type: typ, Note: note, To: "ann", At: at, Category: category}}
		l.fill(evs)
		return evs[0]
	}
	of(event.Stored, "ride", "RIDE")
	of(event.Stored, "plain", "")
	for note, want := range map[string]string{"ride": "RIDE", "plain": "", "unknown": ""} {
		if got := of(event.Acked, note, ""); got.Category != want || got.TookKnown != (note != "unknown") {
			t.Errorf("%s has category %q, want %q; it took %s", note, got.Category, want, got.Took)
		}
	}
	for i := range mostNames - 1 {
		if name := fmt.Sprint("C", i); of(event.Stored, name, name).Category != name || of(event.Expired, name, "").Category != name {
			t.Fatalf("category %d is not kept", i)
		}
	}
	if stored, acked := of(event.Stored, "many", "one more"), of(event.Acked, "many", ""); stored.Category != "other" || acked.Category != "other" {
		t.Errorf("beyond the bound there are %q and %q", stored.Category, acked.Category)
	}
	long := strings.Repeat("c", 70)
	if stored := of(event.Stored, "ride", "RIDE"); stored.Category != "RIDE" || of(event.Stored, "long", long).Category != "other" {
		t.Errorf("a known one is %q", stored.Category)
	}
}

func BenchmarkLatencies(b *testing.B) {
	var l begun
	at := time.UnixMilli(1_700_000_000_000)
	evs := make([]event.Event, 0, 3_000_000)
	for i := range 1_000_000 {
		note, to := fmt.Sprintf("01J%023d", i), fmt.Sprint("driver-", i%1000)
		for _, is := range []event.Type{event.Stored, event.Delivered, event.Acked} {
			evs = append(evs, event.Event{Type: is, Note: note, To: to, At: at})
		}
	}
	for b.Loop() {
		l.fill(evs)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(evs)), "ns/event")
}

func TestWhatPeopleDoInAnInboxHasItsCategoryHoweverOldItIs(t *testing.T) {
	var l begun
	of := func(typ event.Type, note, category string) event.Event {
		evs := []event.Event{{Type: typ, Note: note, To: "ann", At: time.UnixMilli(1_700_000_000_000), Category: category}}
		l.fill(evs)
		return evs[0]
	}
	of(event.Stored, "ride", "RIDE")
	if got := of(event.Read, "old", "POST"); got.Category != "POST" || got.TookKnown {
		t.Errorf("an item of the inbox has category %q, and took %s", got.Category, got.Took)
	}
	if got := of(event.Seen, "older", strings.Repeat("c", 100)); len(got.Category) != mostName {
		t.Errorf("a category of 100 bytes has %d", len(got.Category))
	}
	if got := of(event.Seen, "ride", "RIDE"); got.Category != "RIDE" || !got.TookKnown {
		t.Errorf("an item of a ride has category %q, and it is known how long it took: %t", got.Category, got.TookKnown)
	}
}
