package eventlog

import (
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

func TestEventsOfOneRecipientLeaveAChunk(t *testing.T) {
	for _, brief := range []bool{true, false} {
		c := &Chunk{App: "a"}
		if brief {
			c.names = newBrief()
		}
		at := time.UnixMilli(1_800_000_000_000).UTC()
		for i, to := range []string{"anna", "bo", "anna", "cy", "anna"} {
			c.append(uint64(100+2*i), &event.Event{Type: event.Stored, At: at.Add(time.Duration(i) * time.Second), Note: "n", To: to})
		}
		left, err := Without("a", string(c.Data), c.Last, "anna", brief)
		if err != nil || left == nil || left.Last != 106 {
			t.Fatalf("brief %t: %+v, %v", brief, left, err)
		}
		evs, err := Decode("a", string(left.Data), left.Last)
		if err != nil || len(evs) != 2 || evs[0].ID != 102 || evs[0].To != "bo" || evs[1].ID != 106 || evs[1].To != "cy" || !evs[1].At.Equal(at.Add(3*time.Second)) {
			t.Errorf("brief %t: left are %+v, %v", brief, evs, err)
		}
		if same, err := Without("a", string(left.Data), left.Last, "anna", brief); same != nil || err != nil {
			t.Errorf("brief %t: changed again: %+v, %v", brief, same, err)
		}
	}
}
