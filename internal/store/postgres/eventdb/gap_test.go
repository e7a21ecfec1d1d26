package eventdb

import (
	"context"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/store/eventlog"
)

func TestGapsOfEndedServerAreKnownUntilRepaired(t *testing.T) {
	cfg := config(t)
	alive := func(list ...string) func(context.Context) ([]string, error) {
		return func(context.Context) ([]string, error) { return list, nil }
	}
	cfg.Boot = "first"
	first := open(t, cfg)
	cfg.Boot = "second"
	second := open(t, cfg)
	emitAndWait(t, first, "a", 0, 10)
	gaps := func(n int, list ...string) []event.Gap {
		t.Helper()
		found, err := second.Gaps(t.Context(), alive(list...))
		if err != nil || len(found) != n {
			t.Fatalf("%+v, %v; want %d", found, err, n)
		}
		return found
	}
	gaps(0, "first", "second")
	found := gaps(1, "second")
	if g := found[0]; g.Of != "first" || !g.Ended || g.From.IsZero() || g.Since.After(g.From) {
		t.Errorf("%+v", g)
	}
	if err := second.Repaired(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	gaps(0, "second")
	// The first node is alive after all: its waiting events are stored, and more of its events may be missing.
	emitAndWait(t, first, "a", 10, 10)
	if err := second.Repaired(t.Context(), gaps(1, "first", "second")); err != nil {
		t.Fatal(err)
	}
	gaps(0, "first", "second")
	emitAndWait(t, first, "a", 20, 10)
	gaps(1, "second")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	gaps(0, "second")
}

// A server that was suspended, or cut off from its database, stores events late, after another server has restored them from the mailbox.
func TestLateEventIsRefusedOnceReconciled(t *testing.T) {
	cfg := config(t)
	cfg.Boot = "first"
	first := open(t, cfg)
	cfg.Boot = "second"
	second := open(t, cfg)
	emitAndWait(t, first, "a", 0, 10)
	cutoff, err := second.CutOff(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	since := first.Last()
	for i := range len(event.Types) {
		first.Emit([]event.Event{ev("a", i)})
	}
	again, fresh := ev("a", 0), ev("a", 0)
	again.Reconciled, fresh.At = true, cutoff
	second.Emit([]event.Event{again})
	second.Emit([]event.Event{fresh})
	want := []event.Type{
		event.Online, event.Offline, event.StepAccepted, event.StepFailed, event.StepUnknown, event.StepWithdrawn, event.Exhausted, event.Pressed,
		event.Gathered, event.Digested, event.Seen, event.Read, event.Archived, event.Stored, event.Stored,
	}
	slices.Sort(want)
	for got := []event.Type(nil); !slices.Equal(got, want); slices.Sort(got) {
		evs, to, err := first.Read(t.Context(), "a", since, 1000, true)
		if err != nil {
			t.Fatal(err)
		}
		for i := range evs {
			got = append(got, evs[i].Type)
		}
		if since = to; len(got) > len(want) {
			t.Fatalf("%v are told, want %v", got, want)
		}
	}
	found, err := second.Gaps(t.Context(), func(context.Context) ([]string, error) { return []string{"first", "second"}, nil })
	if err != nil || len(found) != 1 || found[0].Of != "first" || found[0].From.After(ev("a", 0).At) || found[0].Since.After(ev("a", 0).At) {
		t.Errorf("%+v, %v; what was refused is to be looked for since it happened", found, err)
	}
}

// The answer to a commit is lost, so the commit is repeated; or its connection hung, and it arrives after the repeated
// one.
func TestEventsOfACommitMadeTwiceAreStoredOnce(t *testing.T) {
	l := open(t, config(t))
	emitAndWait(t, l, "a", 0, 10)
	if err := l.queue.Flush(t.Context()); err != nil { // the writer counts its commit after events of it may be read
		t.Fatal(err)
	}
	chunks := func(from int) []*eventlog.Chunk {
		q := eventlog.NewQueue(0, nil)
		for i := range 5 {
			q.Emit([]event.Event{ev("b", from+i)})
		}
		list, _ := q.Take()
		return list
	}
	since := l.Last()
	for _, want := range []bool{true, false, false} {
		did, err := l.insert(t.Context(), chunks(0), 100, 0)
		if err != nil || did.unknown || (did.last > 0) != want {
			t.Fatalf("%+v, %v; stored: want %t", did, err, want)
		}
	}
	l.batch++
	if did, err := l.insert(t.Context(), chunks(5), 100, 0); err != nil || did.last == 0 {
		t.Fatalf("the next commit: %+v, %v", did, err)
	}
	l.batch++
	l.want()
	readAll(t, l, "b", since, 0, 10)
	if found, err := l.Gaps(t.Context(), nil); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v is missing", found, err)
	}
}

// checkBetweenCommits checks as the writer does, once it has counted its last commit: events may be read a moment before.
func checkBetweenCommits(t *testing.T, l *Log) {
	t.Helper()
	if err := l.queue.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.check()
}

// A crash of the database undoes commits that it had confirmed, and the log must notice that; see insertChunks.
func TestEventsThatACrashOfTheDatabaseTookBackAreKnownToBeMissing(t *testing.T) {
	for name, notice := range map[string]func(l *Log){
		"by the next commit":      func(l *Log) { emitAndWait(t, l, "a", 10, 1) },
		"while nothing is stored": func(l *Log) { checkBetweenCommits(t, l) },
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, config(t))
			emitAndWait(t, l, "a", 0, 10)
			if _, err := l.db.Pool().Exec(t.Context(), "UPDATE emitter SET batch = batch - 1"); err != nil {
				t.Fatal(err)
			}
			notice(l)
			found, err := l.Gaps(t.Context(), nil)
			if err != nil || len(found) != 1 || found[0].Ended {
				t.Fatalf("%+v, %v; want one of a server that runs", found, err)
			}
			if err := l.Repaired(t.Context(), found); err != nil {
				t.Fatal(err)
			}
			emitAndWait(t, l, "a", 11, 1)
			checkBetweenCommits(t, l)
			if found, err := l.Gaps(t.Context(), nil); err != nil || len(found) > 0 {
				t.Errorf("%+v, %v is missing once mended", found, err)
			}
		})
	}
}
