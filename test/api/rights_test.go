package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestSubscribing: a client with a claim subscribes to a pattern, and a message is published.
func TestSubscribing(t *testing.T) {
	w := startRights(t)
	for _, c := range []struct {
		recipient string
		claim     []string
		pattern   string
		published string
		gets      bool
	}{
		{"r", []string{"rides.oslo"}, "rides.oslo", "rides.oslo", true},
		{"r", []string{"rides.*"}, "rides.oslo", "rides.oslo", true},
		{"r", []string{"rides.*"}, "rides.*", "rides.oslo", true},
		{"r", []string{"rides.*"}, "rides.>", "rides.oslo.new", false},
		{"r", []string{"rides.*"}, "rides.>", "rides.oslo", false},
		{"r", []string{"rides.*"}, "rides.oslo.*", "rides.oslo.new", false},
		{"r", []string{"rides.*"}, "*.oslo", "cars.oslo", false},
		{"r", []string{"rides.*"}, ">", "cars.oslo", false},
		{"r", []string{"rides.*", "rides.*.new"}, "rides.*.new", "rides.oslo.new", true},
		{"r", []string{"rides.*", "rides.*.new"}, "rides.>", "rides.oslo.old", false},
		{"r", []string{"rides.>"}, "rides.>", "rides.oslo.new", true},
		{"r", []string{"rides.>"}, "rides.*.new", "rides.oslo.new", true},
		{"r", []string{"rides.>"}, "rides", "rides", false},
		{"r", []string{"*.oslo"}, "rides.oslo", "rides.oslo", true},
		{"r", []string{"*.oslo"}, "rides.*", "rides.bergen", false},
		{"r", []string{">"}, ">", "cars.oslo", true},
		{"r", nil, "rides.oslo", "rides.oslo", false},
		{"r", []string{"rides.>.new"}, "rides.oslo", "rides.oslo", false}, // no pattern: allows nothing
		{"r", []string{"ri*"}, "rides", "rides", false},
		{"d.42", []string{"drivers.{sub}"}, "drivers.d%2E42", "drivers.d%2E42", true},
		{"d.42", []string{"drivers.{sub}"}, "drivers.d.42", "drivers.d.42", false},
		{"d-42", []string{"drivers.{sub}.>"}, "drivers.d-42.place", "drivers.d-42.place", true},
		{"d-42", []string{"drivers.{sub}.>"}, "drivers.d-43.place", "drivers.d-43.place", false},
		{"d-42", []string{"drivers.{sub}.>"}, "drivers.*.place", "drivers.d-43.place", false},
	} {
		token := w.token(c.recipient, append(c.claim, fences+".>"), nil)
		for _, queue := range []string{"", "q"} {
			for _, way := range subscribers {
				t.Run(strings.Join([]string{c.pattern, "with", strings.Join(c.claim, ","), "by", way.name, queue}, " "), func(t *testing.T) {
					w := w.in(t)
					s := way.subscribe(w, token, []string{c.pattern, w.fence(">")}, w.queue(queue))
					w.wait(s)
					w.publish(c.published)
					if got := w.until(s)[c.published]; got != c.gets {
						t.Errorf("got it: %v", got)
					}
				})
			}
		}
	}
}

// TestPublishing: a holder of a key with roles may publish; a holder of a client's token may not.
func TestPublishing(t *testing.T) {
	w := startRights(t)
	all := []string{">"}
	for _, c := range []struct {
		who, secret string
		may         bool
	}{
		{"publish", w.key(`["publish"]`), true},
		{"admin", w.key(`["admin"]`), true},
		{"read", w.key(`["read"]`), false},
		{"worker", w.key(`["worker"]`), false},
		{"publish and worker", w.key(`["publish","worker"]`), true},
		{"a client", w.token("r", all, all), false},
	} {
		for _, way := range topicPublishers {
			t.Run(c.who+" by "+way.name, func(t *testing.T) {
				w := w.in(t)
				s := natsSubscriber(w, "dev", []string{"rides.oslo", w.fence(">")}, "")
				w.wait(s)
				if said := way.publish(w, c.secret, "rides.oslo"); said != c.may {
					t.Errorf("was told that it may: %v", said)
				}
				if got := w.until(s)["rides.oslo"]; got != c.may {
					t.Errorf("it arrived: %v", got)
				}
			})
		}
	}
}

// key makes an API key.
func (w *rightsWorld) key(roles string) string {
	w.Helper()
	status, answer := w.do(w.Context(), "POST", "/v1/keys", "dev", []byte(`{"roles":`+roles+`}`))
	var k struct{ Key string }
	if err := json.Unmarshal(answer, &k); err != nil || status != http.StatusCreated {
		w.Fatalf("make a key: %d %s", status, answer)
	}
	return k.Key
}
