package api

import (
	"net/http"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// speaks registers a receiver as the endpoint of a recipient with a language.
func (w *world) speaks(recipient, locale string, r *receiver) {
	w.Helper()
	w.call(http.MethodPost, "/v1/endpoints", map[string]any{
		"channel": "webhook", "recipient": recipient, "locale": locale, "address": map[string]string{"url": r.URL + "/" + recipient},
	})
}

func (w *world) template(german string) {
	w.Helper()
	w.call(http.MethodPut, "/v1/templates/welcome", map[string]any{"content": map[string]any{
		"language": "en", "title": "Plan {{plan}}", "locales": map[string]any{"de": map[string]string{"title": german}},
	}})
}

// TestATemplateReachesEverybodyInTheirLanguage: templates work in a step and in a campaign, and accepted messages keep the template's text
// of that time.
func TestATemplateReachesEverybodyInTheirLanguage(t *testing.T) {
	t.Parallel()
	w, r := begin(t), receive(t)
	w.speaks("ada", "en-GB", r)
	w.speaks("bert", "de-CH", r)
	w.template("Tarif {{plan}}")
	pro := map[string]string{"plan": "pro"}
	w.call(http.MethodPost, "/v1/notifications", map[string]any{
		"to": []string{"ada", "bert"}, "id": "n1", "template": "welcome", "variables": pro, "escalate": []any{map[string]string{"channel": "webhook", "after": "1s"}},
	})
	var c struct{ ID string }
	made := w.call(http.MethodPost, "/v1/campaigns", map[string]any{"template": "welcome", "variables": pro, "audience": map[string]any{"channels": []string{"webhook"}}})
	if err := made.JSON(&c); err != nil {
		t.Fatal(err)
	}
	w.template("Zu spät")
	w.call(http.MethodPost, "/v1/campaigns/"+c.ID+"/start", nil)
	for to, want := range map[string]string{"ada": "Plan pro", "bert": "Tarif pro"} {
		if got := r.pushedTo(t, "n1", to); got.Title != want {
			t.Errorf("the step says %q to %s, want %q", got.Title, to, want)
		}
		blackbox.Eventually(t, "the campaign at "+to, func() error {
			for _, one := range r.log() {
				if one.to != to || one.note == "n1" {
					continue
				}
				if one.data.Title != want {
					t.Errorf("the campaign says %q to %s, want %q", one.data.Title, to, want)
				}
				return nil
			}
			return errNothing
		})
	}
	again := w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": "bert", "id": "n1", "template": "welcome", "variables": pro})
	var copies struct{ Duplicate bool }
	if err := again.JSON(&copies); err != nil || !copies.Duplicate {
		t.Errorf("sent once more it is %s, %v; want a duplicate", again.Body, err)
	}
}
