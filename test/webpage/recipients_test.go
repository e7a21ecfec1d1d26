package webpage

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/test/blackbox"
)

// tells opens a copy's page and waits until its summary is want.
func (s *stage) tells(id, to, want string) {
	s.Helper()
	s.opens("/ui/notifications/" + id + "?to=" + to)
	s.reads("#why", want)
	if out, err := s.why(id, to); err != nil || !strings.Contains(out, want) {
		s.Errorf("godwit why %s says %v\n%s\nwant %q", id, err, out, want)
	}
}

// why asks the command line.
func (s *stage) why(id, to string) (string, error) {
	key := filepath.Join(s.TempDir(), "key")
	if err := os.WriteFile(key, []byte(s.api.Key), 0o600); err != nil {
		s.Fatal(err)
	}
	return s.server.Run("why", id, "--to", to, "--url", s.base, "--api-key-file", key)
}

// gets waits until a client receives a notification. Unacknowledged ones may be sent again before.
func (s *stage) gets(client blackbox.Link, id string) {
	s.Helper()
	for {
		n, err := blackbox.NextNotification(s.Context(), client)
		if err != nil {
			s.Fatalf("wait for %s: %v", id, err)
		}
		if n.ID == id {
			return
		}
	}
}

// lies publishes with another app's key.
func (s *stage) lies(id, to string) {
	s.Helper()
	key := s.server.CreateApp(s, "other")
	err := blackbox.Poll(s.Context(), blackbox.Patience, func() error { // the server checks for new keys each second
		return s.server.API(key).Publish(s.Context(), map[string]any{"id": id, "to": to, "title": "New ride"})
	})
	if err != nil {
		s.Fatal(err)
	}
	s.opens("/ui/notifications/" + id + "?to=" + to)
	s.reads("main", "There is no such notification in the app demo. If it was published with the key of another app, it is there.")
	if out, err := s.why(id, to); err == nil || !strings.Contains(out, "was it published with the key of another app? Then it is there") {
		s.Errorf("godwit why %s says %v\n%s", id, err, out)
	}
}

func TestThePageSaysWhyANotificationDidNotArrive(t *testing.T) {
	blackbox.Long(t)
	bot := newBot(t)
	s := newStage(t, "--allow-private-urls")
	s.has(bot)
	s.signIn("dev")

	s.publish("ride-1", "bo")
	s.tells("ride-1", "bo", "bo has never been connected")
	s.presses(`button.danger`, `[data-state="recalled"]`)
	s.reads("#why", "Recalled by a back end")

	s.call(http.MethodPost, "/v1/notifications", map[string]any{"id": "ride-2", "to": "bo", "title": "New ride", "ttl": "1s"})
	s.tells("ride-2", "bo", ": bo has never been connected")

	s.publish("ride-3", "cy", "telegram")
	s.tells("ride-3", "cy", ": not tried: the recipient has no active endpoint of this channel")

	bot.Put(7, botserver.NotFound)
	s.telegram("di", 7)
	s.publish("ride-4", "di", "telegram")
	s.tells("ride-4", "di", "chat not found")

	s.telegram("ed", 8)
	now := time.Now().UTC()
	s.call(http.MethodPut, "/v1/recipients/ed/preferences", map[string]any{"timezone": "UTC", "quiet_hours": map[string]string{
		"from": now.Add(-time.Hour).Format("15:04"), "to": now.Add(2 * time.Hour).Format("15:04"),
	}})
	s.publish("ride-5", "ed", "telegram")
	s.tells("ride-5", "ed", ": not tried: the recipient's quiet hours end at ")

	anna, err := s.server.Dial(t.Context(), "ws", blackbox.Hello{App: access.DevApp, Recipient: "anna", Device: "phone", Window: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(anna.Cut)
	anna = blackbox.Attended(anna)
	s.publish("ride-6", "anna")
	s.gets(anna, "ride-6")
	s.publish("ride-7", "anna")
	s.tells("ride-7", "anna", "the window of phone is full; it has 1 before this one to acknowledge")
	s.tells("ride-6", "anna", "and nobody has acknowledged it yet")
	if err := anna.Ack(t.Context(), "ride-6"); err != nil {
		t.Fatal(err)
	}
	s.reads("#why", "Acknowledged by phone, ") // the page follows
	s.tells("ride-6", "anna", "Acknowledged by phone, ")
	s.gets(anna, "ride-7")

	s.call(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": "123456789:AAWrongWrongWrongWrongWrongWrongWrongW", "base_url": bot.URL})
	s.telegram("flo", 9)
	s.publish("ride-8", "flo", "telegram")
	s.tells("ride-8", "flo", "waits until the channel is set up anew")

	hal, err := s.server.Dial(t.Context(), "ws", blackbox.Hello{App: access.DevApp, Recipient: "hal", Device: "tablet"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hal.Cut)
	hal = blackbox.Attended(hal)
	s.call(http.MethodPost, "/v1/notifications", map[string]any{"id": "ride-10", "to": "hal", "title": "New ride", "ttl": "5s"})
	s.gets(hal, "ride-10")
	s.opens("/ui/notifications/ride-10?to=hal")
	s.reads("#why", "It expired at ") // sooner or later
	s.tells("ride-10", "hal", ": it was written to tablet at ")
	s.tells("ride-10", "hal", ", and nobody acknowledged it.")
	s.lies("ride-11", "hal")

	s.publish("ride-9", "gus")
	s.call(http.MethodPost, "/v1/notifications", map[string]any{"id": "news", "to": []string{"anna", "bo", "cy"}, "title": "For several"})
	s.looksUp(anna)
}

// looksUp searches recipients by the beginning of a name.
func (s *stage) looksUp(anna blackbox.Link) {
	s.opens("/ui/recipients")
	s.reads("#list", "gus")
	s.types("#prefix", "an")
	s.misses(`a[href="/ui/recipients/gus"]`)
	s.clicks(`a[href="/ui/recipients/anna"]`)
	s.reads("#sessions", "phone")
	s.reads("#history", "ride-6")
	s.looksAtEveryPage([]sight{
		{"recipients", "/ui/recipients", "#list table", nil},
		{"recipient", "/ui/recipients/anna", "#sessions", nil},
		{"notification", "/ui/notifications/ride-4?to=di", "#why", nil},
		{"copies", "/ui/notifications/news", "#copies", nil},
	})
	s.opens("/ui/recipients/anna")
	s.clicks("#watch")
	s.reads("#watching", "Waiting for what comes")
	s.publish("ride-12", "anna")
	s.reads("#arrivals", "ride-12 New ride")
	s.clicks(`button[hx-post$="/disconnect"]`)
	for {
		n, err := blackbox.NextNotification(s.Context(), anna)
		if err == nil {
			continue // repeated, since it is not acknowledged
		}
		if err == nil || err.Error() != "goodbye: disconnected" {
			s.Errorf("the session goes on: %v %+v", err, n)
		}
		break
	}
	s.misses("#sessions")
	s.opens("/ui/recipients/gus")
	s.presses(`button[hx-post$="/erase"]`, "#find")
	a, err := s.api.Do(s.Context(), http.MethodGet, "/v1/recipients/gus", nil)
	if err != nil || a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "not-found") {
		s.Errorf("gus is still known: %v %+v", err, a)
	}
}
