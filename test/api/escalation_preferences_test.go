package api

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// note publishes a notification with one step, which starts immediately because nobody is online.
func (w *world) note(id, to, category string, more map[string]any) {
	w.Helper()
	body := map[string]any{"to": to, "id": id, "category": category, "escalate": []map[string]string{{"channel": "webhook", "after": "30m"}}}
	maps.Copy(body, more)
	w.call(http.MethodPost, "/v1/notifications", body)
}

// wantSkipped waits until a copy's step is skipped for a reason.
func (w *world) wantSkipped(id, to, why string) {
	w.Helper()
	w.wantChannels(id, to, "live stored", "webhook skipped")
	var s struct{ Channels []struct{ Detail string } }
	if err := w.call(http.MethodGet, "/v1/notifications/"+id+"?to="+to, nil).JSON(&s); err != nil {
		w.Fatal(err)
	}
	if got := s.Channels[1].Detail; !strings.Contains(got, why) {
		w.Errorf("%s is skipped because %q; want %q", id, got, why)
	}
}

func (w *world) prefers(recipient string, preferences map[string]any) {
	w.Helper()
	w.call(http.MethodPut, "/v1/recipients/"+recipient+"/preferences", preferences)
}

func TestPreferencesHoldWhenAStepBegins(t *testing.T) {
	t.Parallel()
	w, r := begin(t), receive(t)
	for _, who := range []string{"picky", "asleep", "often"} {
		w.reach(who, r)
	}
	type object = map[string]any
	none := object{"channels": []string{}}
	w.prefers("picky", object{"categories": object{"rides": object{}, "*": none}})
	w.call(http.MethodPut, "/v1/categories/alarm", object{"critical": true})
	w.note("promo", "picky", "promo", object{"priority": "high"})
	w.note("ride", "picky", "rides", nil)
	w.note("alarm", "picky", "alarm", nil)
	r.wait(t, message, "ride")
	r.wait(t, message, "alarm")
	w.wantSkipped("promo", "picky", "preferences do not let category promo come over webhook")

	now := time.Now().UTC()
	w.prefers("asleep", object{"timezone": "UTC", "quiet_hours": object{"from": now.Add(-time.Hour).Format("15:04"), "to": now.Add(2 * time.Hour).Format("15:04")}})
	w.note("quiet", "asleep", "promo", nil)
	w.note("short", "asleep", "promo", object{"ttl": "1h"})
	w.note("urgent", "asleep", "promo", object{"priority": "high"})
	r.wait(t, message, "urgent")
	w.wantSkipped("short", "asleep", "when the notification has expired")
	w.wantChannels("quiet", "asleep", "live stored", "webhook waiting")
	end := now.Add(2 * time.Hour).Truncate(time.Minute)
	blackbox.Eventually(t, "the step of quiet to be put off", func() error {
		var s struct{ Channels []struct{ At time.Time } }
		if err := w.call(http.MethodGet, "/v1/notifications/quiet?to=asleep", nil).JSON(&s); err != nil {
			return err
		}
		if at := s.Channels[1].At; !at.Equal(end) {
			return fmt.Errorf("it waits until %s, not %s", at, end)
		}
		return nil
	})

	w.call(http.MethodPut, "/v1/categories/news", object{"escalate_limit": "1/d"})
	w.note("first", "often", "news", nil)
	r.wait(t, message, "first")
	w.note("second", "often", "news", nil)
	w.wantSkipped("second", "often", "1/d")
	w.server.Kill()
	if err := w.server.Launch(); err != nil {
		t.Fatal(err)
	}
	w.note("third", "often", "news", nil)
	w.wantSkipped("third", "often", "1/d")
	w.note("other", "often", "rides", nil)
	r.wait(t, message, "other")
	for _, id := range []string{"promo", "quiet", "short", "second", "third"} {
		if n := len(r.got(message, id)); n != 0 {
			t.Errorf("%s came %d times", id, n)
		}
	}
}
