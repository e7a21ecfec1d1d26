package eventdb_test

import (
	"path/filepath"
	"testing"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/store/sqlite/eventdb"
	"godwit.dev/godwit/internal/store/storetest"
)

// opener returns a function that opens a log on a new file; each further call closes and reopens it.
func opener(t *testing.T) (open func() *eventdb.Log) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.db")
	var l *eventdb.Log
	t.Cleanup(func() { _ = l.Close() })
	return func() *eventdb.Log {
		t.Helper()
		if l != nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if l, err = eventdb.Open(t.Context(), path, eventdb.Options{}); err != nil {
			t.Fatal(err)
		}
		return l
	}
}

func TestConformance(t *testing.T) {
	storetest.RunEvents(t, func(t *testing.T) (event.Log, func() event.Log) {
		open := opener(t)
		return open(), func() event.Log { return open() }
	}, storetest.Alone[event.Log]("ids are given out by its process, from memory"))
}

func TestProgressConformance(t *testing.T) {
	storetest.RunProgress(t, func(t *testing.T) (hook.ProgressStore, func() hook.ProgressStore) {
		open := opener(t)
		return open(), func() hook.ProgressStore { return open() }
	}, storetest.Alone[hook.ProgressStore]("it lies in the event log"))
}

func TestSinkProgressConformance(t *testing.T) {
	storetest.RunSinkProgress(t, func(t *testing.T) (sink.ProgressStore, func() sink.ProgressStore) {
		open := opener(t)
		return open(), func() sink.ProgressStore { return open() }
	})
}
