package signal_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/signal"
)

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
