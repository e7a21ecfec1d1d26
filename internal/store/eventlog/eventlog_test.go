package eventlog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

func ev(app string, n int) event.Event {
	return event.Event{App: app, Type: event.Types[n%len(event.Types)], At: time.UnixMilli(int64(1_700_000_000_000 + n)).UTC(), Note: fmt.Sprint("note-", n), To: fmt.Sprint("driver-", n%7)}
}

func TestEveryEventTypeSurvivesEncoding(t *testing.T) {
	c := &Chunk{App: "a"}
	all := append([]event.Type{"of a newer version"}, event.Types...)
	for i, typ := range all {
		e := ev("a", 100-i) // times may go back
		e.Type = typ
		if i%2 == 1 {
			e.Channel = "fcm"
		}
		if typ == event.Stored {
			e.Category = "a/b:c \u00e9%2f"
		}
		c.append(uint64(1000+i*300), &e)
	}
	for i, e := range c.decoded() {
		want := ev("a", 100-i)
		want.Type, want.ID = all[i], uint64(1000+i*300)
		if i%2 == 1 {
			want.Channel = "fcm"
		}
		if e.Type == event.Stored {
			want.Category = "a/b:c \u00e9%2f"
		}
		if e != want {
			t.Errorf("got %+v, want %+v", e, want)
		}
		if i > 0 && i <= 10 && typeCodes[e.Type] == 0 {
			t.Errorf("%s has no number of its own", e.Type)
		}
	}
}

func FuzzDecode(f *testing.F) {
	c := &Chunk{App: "a"}
	for i := range 5 {
		e := ev("a", i)
		c.append(uint64(i+1), &e)
	}
	f.Add(string(c.Data))
	f.Add("")
	f.Add("\x01\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Add(string(new(Packer).Pack(lives(40).Data)))
	f.Add(string(taken([]event.Event{ev("a", 1), ev("a", 2), ev("a", 1), ev("b", 3)})[0].Data))
	f.Add("\x03\x01\x00\x01\x01\x00\x02")
	f.Fuzz(func(t *testing.T, data string) {
		data, bad := unpack(data)
		if bad != nil || len(data) > 0 && data[0] == packedVersion {
			return
		}
		evs, err := decode("a", data, 0)
		if placed, err2 := Decode("a", data, 9); (err2 == nil) != (err == nil) || err == nil && len(placed) != len(evs) || len(placed) > 0 && placed[len(placed)-1].ID != 9 {
			t.Errorf("with an id of its own: %d events instead of %d, %v", len(placed), len(evs), err2)
		}
		if err == nil && len(data) > 0 && len(evs) > len(data) {
			t.Errorf("%d events from %d bytes", len(evs), len(data))
		}
	})
}

func TestForgettingAnAppLeavesTheOthersInMemory(t *testing.T) {
	var ts Tails
	ts.Start(0)
	var all []*Chunk
	for i, app := range []string{"a", "b", "a", "b"} {
		ts.of(app).looked = time.Now()
		all = append(all, &Chunk{App: app, Last: uint64(i + 1), Data: make([]byte, 10*(i+1))})
	}
	ts.Publish(all, 4)
	ts.drop("a", ts.of("a"))
	if len(ts.order) != 2 || ts.order[0] != all[1] || ts.order[1] != all[3] || len(ts.of("b").chunks) != 2 {
		t.Errorf("%d chunks are left, %d of them b's; want b's 2", len(ts.order), len(ts.of("b").chunks))
	}
	if want := all[1].memory() + all[3].memory(); ts.bytes != want {
		t.Errorf("%d bytes are counted, want b's %d", ts.bytes, want)
	}
}

// stored is a stored log, which is read for events that are not in memory.
type stored struct {
	Tails
	all   []event.Event
	reads int
}

// store adds events of an app with consecutive ids.
func (s *stored) store(app string, n int) {
	q := NewQueue(0, nil)
	for i := range n {
		q.Emit([]event.Event{ev(app, len(s.all)+1+i)})
	}
	chunks, _ := q.Take()
	for _, c := range chunks {
		from := uint64(len(s.all))
		c.Last = from + uint64(c.N)
		s.all = append(s.all, c.decoded()...)
	}
	s.Publish(chunks, uint64(len(s.all)))
}

func (s *stored) read(t *testing.T, app string, since uint64, want int) {
	t.Helper()
	evs, last, err := s.Read(t.Context(), app, since, 0, false, func(_ context.Context, app string, since uint64, limit int) (evs []event.Event, err error) {
		s.reads++
		for _, e := range s.all {
			if e.App == app && e.ID > since && len(evs) < limit {
				evs = append(evs, e)
			}
		}
		return evs, nil
	})
	if err != nil || len(evs) != want || last != uint64(len(s.all)) {
		t.Fatalf("%d events, last %d, %v; want %d and %d", len(evs), last, err, want, len(s.all))
	}
	for _, e := range evs {
		if want := ev(app, int(e.ID)); e.Note != want.Note || e.App != app || e.ID <= since {
			t.Fatalf("got %+v, want %+v", e, want)
		}
	}
}

func (s *stored) kept(app string) int { return len(s.of(app).chunks) }

func TestNothingIsKeptInMemoryForAnAppThatNobodyFollows(t *testing.T) {
	s := &stored{}
	s.Start(0)
	s.store("a", 100)
	if n := s.kept("a"); n != 0 {
		t.Errorf("%d chunks are kept for nobody", n)
	}
	s.read(t, "a", 0, 100)
	s.store("a", 1)
	s.read(t, "a", 100, 1)
	if n := s.kept("a"); n != 1 || s.reads != 1 {
		t.Errorf("a follower came, %d chunks are kept and the store was read %d times", n, s.reads)
	}
	s.of("a").looked = time.Now().Add(-2 * followedFor) // and went
	s.store("a", 1)
	if n := s.kept("a"); n != 0 {
		t.Errorf("the follower went, and %d chunks are kept", n)
	}
	s.read(t, "a", 100, 2)
}

func TestFollowersGetEventsOfOtherServers(t *testing.T) {
	s := &stored{}
	s.Start(0)
	s.read(t, "a", 0, 0)
	followed := s.Followed()
	s.of("b").looked = time.Now() // a follower arrives in the middle of the check
	q := NewQueue(0, nil)
	q.Emit([]event.Event{ev("a", 1)})
	q.Emit([]event.Event{ev("b", 2)})
	chunks, _ := q.Take()
	chunks[0].Last, chunks[1].Last = 1, 2
	s.all = append(chunks[0].decoded(), chunks[1].decoded()...)
	s.Advance(chunks[:1], 2, followed)
	s.read(t, "a", 0, 1)
	s.read(t, "b", 0, 1)
	if s.reads != 1 {
		t.Errorf("the store was read %d times; want once, for b", s.reads)
	}
	// Too much has been stored, so all followers read the store.
	for _, t := range s.byApp {
		t.news = make(chan struct{})
	}
	waits := s.byApp["a"].news
	s.all = append(s.all, ev("a", 3))
	s.all[2].ID = 3
	s.Advance(nil, 3, nil)
	<-waits
	s.read(t, "a", 1, 1)
	if s.reads != 2 {
		t.Errorf("the store was read %d times; want twice", s.reads)
	}
	s.of("b").looked = time.Now().Add(-2 * followedFor)
	if got := s.Followed(); len(got) != 1 || got[0] != "a" {
		t.Errorf("%v are followed", got)
	}
}
