package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/hookserver"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// TestHookSurvivesKills kills the server while it posts the events of many recipients. An event may be posted twice, with the same webhook-id.
// No event of the log may be missing or be posted before an earlier one of the same recipient.
func TestHookSurvivesKills(t *testing.T) {
	blackbox.Long(t)
	const recipients, atOnce = 200, 50 // mailboxes hold 1,000
	kills, each := 3, 1000
	if thorough.Run() {
		kills, each = 10, 10_000
	}
	receiver := hookserver.Start("")
	defer receiver.Close()
	receiver.Behave(hookserver.Behaviour{Takes: 5 * time.Millisecond})
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--allow-private-urls"), blackbox.Plain())
	api := server.API()

	var hook struct{ Secret string }
	api.Call(t, http.MethodPut, "/v1/hooks/all", map[string]any{"url": receiver.URL, "types": []string{"stored"}}, &hook)
	receiver.Secret(hook.Secret)
	everybody := make([]string, recipients)
	for i := range everybody {
		everybody[i] = fmt.Sprint("unit-", i)
	}
	for round := range kills {
		before := len(receiver.Took())
		for i := range each / atOnce {
			to := everybody[i*atOnce%recipients:][:atOnce]
			api.Call(t, http.MethodPost, "/v1/notifications", map[string]any{"to": to, "id": fmt.Sprintf("n-%d-%d", round, i), "title": "Hi"}, nil)
		}
		blackbox.Eventually(t, "some events have come", func() error {
			if n := len(receiver.Took()) - before; n < each/2 {
				return fmt.Errorf("%d of %d", n, each)
			}
			return nil
		})
		server.Kill()
		if err := server.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	var state struct {
		State, Cursor string
		Newest        string `json:"newest_event_id"`
	}
	blackbox.Eventually(t, "the hook has come to the end", func() error {
		api.Call(t, http.MethodGet, "/v1/hooks/all", nil, &state)
		if state.Cursor != state.Newest || state.State != "active" {
			return fmt.Errorf("%+v", state)
		}
		return nil
	})
	if refused := receiver.Refused(); len(refused) > 0 {
		t.Errorf("signatures were wrong: %v", refused)
	}
	checkHooked(t, receiver.Took(), server)
	if n := receiver.Most(); n < 2 {
		t.Errorf("%d requests at once", n)
	}
}

// checkHooked compares the received events with those of the log.
func checkHooked(t *testing.T, took []hookserver.Message, server *blackbox.Server) {
	t.Helper()
	first := map[string]int{} // event id → place of its first occurrence
	bodies := map[string]string{}
	for i, m := range took {
		var e struct {
			ID string `json:"event_id"`
		}
		if err := json.Unmarshal([]byte(m.Body), &e); err != nil {
			t.Fatal(err)
		}
		if _, seen := first[e.ID]; !seen {
			first[e.ID] = i
		}
		if before := bodies[m.ID]; before != "" && before != m.Body {
			t.Errorf("webhook-id %s stood for two events", m.ID)
		}
		bodies[m.ID] = m.Body
	}
	last, n := map[string]int{}, 0 // by recipient
	err := server.API().Events(t.Context(), "stored", func(e blackbox.Event) bool {
		n++
		place, came := first[strings.Trim(string(e.EventID), `"`)]
		switch {
		case !came:
			t.Errorf("event %s never came", e.EventID)
		case place < last[e.To]:
			t.Errorf("event %s came before an earlier one of %s", e.EventID, e.To)
		}
		last[e.To] = max(last[e.To], place)
		return n < len(first)
	})
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d events, %d posts", n, len(took))
}
