package eventdb

import (
	"context"
	"testing"

	"godwit.dev/godwit/internal/event"
)

func TestWhatAServerThatHasEndedMayHaveLostIsKnownToTheOthersUntilItIsMended(t *testing.T) {
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
	if err := second.Mended(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	gaps(0, "second")
	emitAndWait(t, first, "a", 10, 10) // it lives after all
	gaps(0, "first", "second")
	gaps(1, "second")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	gaps(0, "second")
}
