package storetest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
)

// RunSinkProgress is the conformance suite of stores of sinks' progress. open opens an empty store, and reopen opens it again.
func RunSinkProgress(t *testing.T, open func(t *testing.T) (s sink.ProgressStore, reopen func() sink.ProgressStore)) {
	t.Helper()
	t.Run("ProgressIsOfASinkOfAnAppAndItsOwners", func(t *testing.T) {
		s, reopen := open(t)
		keys := [][2]string{{"a", clickhouse.Name}, {"b", clickhouse.Name}, {"a", "another"}}
		kept := func(want ...*sink.Progress) {
			t.Helper()
			for i, k := range keys {
				if p, err := s.SinkProgress(t.Context(), k[0], k[1]); err != nil || !reflect.DeepEqual(p, want[i]) {
					t.Fatalf("%v has %+v, %v; want %+v", k, p, err, want[i])
				}
			}
		}
		own := func(i int, want *sink.Progress) int64 {
			t.Helper()
			epoch, p, err := s.OwnSinkProgress(t.Context(), keys[i][0], keys[i][1])
			if err != nil || !reflect.DeepEqual(p, want) {
				t.Fatalf("the owner of %v reads %+v, %v; want %+v", keys[i], p, err, want)
			}
			return epoch
		}
		save := func(i int, epoch int64, p *sink.Progress, want error) {
			t.Helper()
			if err := s.SaveSinkProgress(t.Context(), keys[i][0], keys[i][1], epoch, p); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Fatalf("saved for %v: %v, want %v", keys[i], err, want)
			}
		}
		at := time.UnixMilli(1_700_000_000_123).UTC()
		one, two := &sink.Progress{Cursor: 1<<62 + 7, Made: at, Asked: at.Add(time.Second)}, &sink.Progress{Cursor: 5}
		kept(nil, nil, nil)
		first, other := own(0, nil), own(1, nil)
		own(2, nil)
		save(0, first, one, nil)
		kept(one, nil, nil)
		save(1, other, two, nil)
		s = reopen()
		kept(one, two, nil)
		next := own(0, one)
		if next <= first {
			t.Errorf("epoch %d after %d", next, first)
		}
		save(0, first, two, sink.ErrFormer)
		kept(one, two, nil)
		save(0, next, two, nil)
		kept(two, two, nil)
	})
}
