package signal_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/objects/signal"
)

// Registrations with a retention of minutes must not stay for an hour just because collect runs rarely.
func TestRegistrationsThatAreKeptForMinutesAreDroppedInTime(t *testing.T) {
	inWorld(t, signal.Config{Retain: 8 * time.Minute}, func(w *world) {
		gone := w.connect("gone", "main")
		gone.register("a")
		gone.told()
		gone.close()
		for wait, want := range []int{1, 0} { // before the 8 minutes have passed, and after the next collect
			time.Sleep([]time.Duration{7 * time.Minute, 3*time.Minute + time.Second}[wait])
			if v, err := w.db.Clients(w.Context(), app, "gone"); err != nil || len(v) != want {
				w.Errorf("it has %d stored sets, %v; want %d", len(v), err, want)
			}
		}
	})
}

func TestTheLogTellsOfDroppedRegistrationsOnlyWhereThereAreSome(t *testing.T) {
	var log bytes.Buffer
	inWorld(t, signal.Config{Retain: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil))}, func(w *world) {
		stays, gone := w.connect("stays", "main"), w.connect("gone", "main")
		defer stays.close()
		for _, u := range []*unit{stays, gone} {
			u.register("a")
			u.told()
		}
		gone.close()
		for range 3 {
			time.Sleep(2 * time.Hour) // nothing is heard of either
			if err := w.svc.Collect(w.Context()); err != nil {
				w.Fatal(err)
			}
		}
	})
	if text := log.String(); strings.Count(text, "dropped registrations") != 1 || !strings.Contains(text, "clients=1") {
		t.Errorf("the log says:\n%s", text)
	}
}
