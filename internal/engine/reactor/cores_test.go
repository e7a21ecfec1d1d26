package reactor

import (
	"log/slog"
	"runtime"
	"testing"
)

// TestLoopsAreAsManyAsCores: as Go counts them, by affinity, the cgroup's limit or GOMAXPROCS.
func TestLoopsAreAsManyAsCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5))
	r, err := New(Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Stats().Loops; n != 5 {
		t.Errorf("with five cores there are %d loops", n)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
