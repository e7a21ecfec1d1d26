package eventlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/internal/feeds/event"
)

// taken emits events to the queue of a log that assigns ids itself, and takes them from it in chunks.
func taken(evs []event.Event) []*Chunk {
	q := NewQueue(0, func() time.Time { return time.UnixMilli(1_700_000_000_000) })
	q.Emit(evs)
	chunks, _ := q.Take()
	return chunks
}

func TestBriefChunksAreReadAsTheyWereEmitted(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 50, 20_000} {
		var evs []event.Event
		for range n {
			e := ev("a", rnd.IntN(1000))
			switch rnd.IntN(10) {
			case 0:
				e.Channel = "fcm"
			case 1:
				e.Note = ""
			case 2:
				e.To = ""
			case 3:
				e.Type, e.Channel = "of a newer version", "telegram"
			case 4:
				e.Note = "to many"
			case 5:
				e.Category = "a/b:c"
			}
			evs = append(evs, e)
		}
		var p Packer
		var got []event.Event
		for _, c := range taken(evs) {
			read, err := Decode("a", string(p.Pack(c.Data)), c.Last)
			if err != nil || !slices.Equal(read, c.decoded()) {
				t.Fatalf("a chunk of %d events is read as %d, %v", c.N, len(read), err)
			}
			got = append(got, read...)
		}
		for i := range got {
			evs[i].ID = got[i].ID
		}
		if !slices.Equal(got, evs) {
			t.Errorf("of %d events %d are read, or others", n, len(got))
		}
	}
}

// Nodes of the previous version read the chunks that this node stores in their database.
func TestChunksOfALogThatOthersStoreInAreNotBrief(t *testing.T) {
	q := NewQueue(0, nil)
	failed := ev("a", 1)
	failed.Type, failed.Channel = event.StepFailed, "fcm"
	named := ev("a", 2)
	named.Type, named.Category = event.Stored, "7/R"
	q.Emit([]event.Event{ev("a", 0), failed, named})
	chunks, _ := q.Take()
	want := "\x01\x01\x80\xa0\xab\xfe\xf9b" + "\x01\x00\x00\x06note-0\x08driver-0" + "\x00\x0fstep_failed/fcm\x01\x02\x06note-1\x08driver-1" +
		"\x00\x10stored//:7%2FR//\x01\x02\x06note-2\x08driver-2" // not a number: nodes without categories do not read it as a step
	if got := string(chunks[0].Data); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A later version may add fields to an event; this version reads the other fields.
func TestFieldsOfANewerVersionArePassedOver(t *testing.T) {
	b := []byte{briefVersion, 9, 0}
	b = appendText(append(b, more), "new")
	b = appendText(append(b, 40), "unknown")
	b = appendText(append(b, channelField), "fcm")
	b = appendText(binary.AppendUvarint(b, 3_000_000), "too")
	b = append(b, 0, 0, 0, newPair)
	b = appendText(appendText(b, "n"), "t")
	b = append(b, typeCodes[event.Acked], 1, 0, number+1) // of the same
	evs, err := Decode("a", string(b), 10)
	at := time.UnixMilli(0).UTC()
	want := []event.Event{{ID: 9, App: "a", Type: "new", At: at, Note: "n", To: "t", Channel: "fcm"}, {ID: 10, App: "a", Type: event.Acked, At: at, Note: "n", To: "t"}}
	if err != nil || !slices.Equal(evs, want) {
		t.Errorf("read as %+v, %v; want %+v", evs, err, want)
	}
}

func TestBriefChunksThatAreDamagedAreRefused(t *testing.T) {
	whole := string(taken([]event.Event{ev("a", 0), ev("a", 1), ev("a", 0)})[0].Data)
	head := string([]byte{briefVersion, 9, 0})
	acked := string(rune(typeCodes[event.Acked])) + "\x00\x00"
	for what, data := range map[string]string{
		"cut off": whole[:len(whole)-1], "cut off in a text": whole[:len(whole)-6],
		"the first names one said before": head + acked + string(rune(number)), "a number beyond all": head + acked + "\x00\x01n\x01t" + acked + "\x7f",
		"a number before all": head + acked + "\x00\x01n\x01t" + acked + "\x05", "a type without a meaning": head + "\x7f\x00\x00\x01\x01t",
		"fields without an end": head + string([]byte{1 | more}) + "\x01\x03fcm",
	} {
		if evs, err := Decode("a", data, 1); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %d events, %v", what, len(evs), err)
		}
	}
}

// docs/performance.md gives the limit for the events of a million notifications.
func TestANotificationsEventsTakeFewBytes(t *testing.T) {
	const n = 100
	var ids []string
	for range n {
		ids = append(ids, ulid.Make().String())
	}
	var evs []event.Event
	for _, is := range []event.Type{event.Stored, event.Delivered, event.Acked} {
		for i, id := range ids {
			evs = append(evs, event.Event{App: "a", Type: is, At: time.UnixMilli(1_700_000_000_000), Note: id, To: fmt.Sprint("driver-", i*7919%100_000)})
		}
	}
	var p Packer
	if bytes := len(p.Pack(taken(evs)[0].Data)) / n; bytes > 28 {
		t.Errorf("the three events of a notification take %d bytes", bytes)
	}
}
