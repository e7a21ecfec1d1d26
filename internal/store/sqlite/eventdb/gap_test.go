package eventdb

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

func wantGap(t *testing.T, l *Log, want bool) (gap event.Gap) {
	t.Helper()
	gaps, err := l.Gaps(t.Context(), nil)
	if err != nil || (len(gaps) == 1) != want {
		t.Fatalf("%+v, %v; want one: %t", gaps, err, want)
	}
	if want {
		gap = gaps[0]
	}
	return gap
}

// crashed opens a copy of the file as it is now.
func crashed(t *testing.T, path string) *Log {
	t.Helper()
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "events.db"+suffix), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return open(t, filepath.Join(dir, "events.db"), Options{})
}

func TestUncleanLogKnowsItsGapUntilRepaired(t *testing.T) {
	path := file(t)
	l := open(t, path, Options{})
	l.Emit([]event.Event{ev("a", 0)})
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored := time.Now()
	wantGap(t, l, false)
	again := crashed(t, path)
	gap := wantGap(t, again, true)
	if gap.From.After(stored) || stored.Sub(gap.From) > time.Minute || gap.Since.After(gap.From) {
		t.Errorf("%+v; the last events were stored at %s", gap, stored)
	}
	again.Emit([]event.Event{ev("a", 1)})
	if err := again.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if later := wantGap(t, again, true); !later.From.Equal(gap.From) {
		t.Errorf("what is stored since moved the gap from %s to %s", gap.From, later.From)
	}
	if err := again.Repaired(t.Context(), []event.Gap{gap}); err != nil {
		t.Fatal(err)
	}
	wantGap(t, again, false)
}

func TestADroppedEventIsAGapThatOutlivesTheProcess(t *testing.T) {
	path := file(t)
	free := int64(1 << 40)
	l := open(t, path, Options{Free: func() int64 { return free }, MinFree: 1 << 20})
	free = 0
	l.Emit([]event.Event{ev("a", 0)})
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := l.Stats(); s.Dropped != 1 {
		t.Fatalf("%+v", s)
	}
	gap := wantGap(t, l, true)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, Options{})
	if again := wantGap(t, l, true); !again.From.Equal(gap.From) || again.Lost != gap.Lost {
		t.Errorf("%+v after it was closed, %+v before", again, gap)
	}
}
