package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// told lists the events of a notification as "type channel", from the feed's beginning until the type until has occurred times times. It
// omits delivered, which has no fixed place.
func (w *world) told(id, until string, times int) (list []string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), blackbox.Patience)
	defer cancel()
	left := times
	err := w.api.Events(ctx, "", func(e blackbox.Event) bool {
		if e.ID == id && e.Type != "delivered" {
			list = append(list, strings.TrimSpace(e.Type+" "+e.Channel))
			if e.Type == until {
				left--
			}
		}
		return left > 0
	})
	if err != nil {
		w.Fatalf("waited for %d times %s of %s, got %q: %v", times, until, id, list, err)
	}
	return list
}

func TestStepsTellWhatBecomesOfThem(t *testing.T) {
	t.Parallel()
	w, r := begin(t), receive(t)
	w.reach("rider", r)
	w.publish("ride", "rider", "22h") // sent immediately, since the recipient is offline
	w.told("ride", "exhausted", 1)
	w.ack(w.online("rider"), "ride", "rider")
	want := []string{"stored", "step_accepted webhook", "exhausted", "acked", "step_withdrawn webhook"}
	if got := w.told("ride", "step_withdrawn", 1); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	w.publish("twice", "rider", "0s", "1s")
	if got := w.told("twice", "exhausted", 1); !slices.Equal(got, []string{"stored", "step_accepted webhook", "step_accepted webhook", "exhausted"}) {
		t.Errorf("events of two steps: %q", got)
	}
	w.publish("nobody", "stranger", "1s", "2s")
	if got := w.told("nobody", "exhausted", 1); !slices.Equal(got, []string{"stored", "exhausted"}) {
		t.Errorf("events of what reaches nobody: %q", got)
	}
	r.answer(http.StatusGone)
	w.reach("gone", r)
	w.publish("lost", "gone", "22h")
	if got := w.told("lost", "exhausted", 1); !slices.Equal(got, []string{"stored", "step_failed webhook", "exhausted"}) {
		t.Errorf("events of what is refused: %q", got)
	}
	for metric, want := range map[string]float64{
		`godwit_escalation_delay_seconds_count{channel="webhook"}`: 3, `godwit_escalation_steps_total{channel="webhook",outcome="failed"}`: 1,
		`godwit_escalation_steps_total{channel="webhook",outcome="skipped"}`: 2,
	} {
		blackbox.Eventually(t, metric, func() error {
			if n, err := w.api.Metric(t.Context(), metric); err != nil || n != want {
				return fmt.Errorf("it is %v, want %v: %w", n, want, err)
			}
			return nil
		})
	}
}
