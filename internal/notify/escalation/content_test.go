package escalation

import (
	"encoding/json"
	"log/slog"
	"testing"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

func TestAStepSaysWhatItsTemplateSaysInTheEndpointsLanguage(t *testing.T) {
	says := template.Message{
		Content:   template.Content{Content: push.Content{Title: "Plan {{plan}}", URL: "https://x.example", Data: []byte(`{"of":"template"}`)}, Locales: map[string]template.Variant{"de": {Title: "Tarif {{plan}}"}}},
		Variables: template.Variables{"plan": "pro"},
	}
	n := &notification.Notification{Content: notification.Content{Title: "Plan pro", Data: []byte(`{"of":"publish"}`), ContentType: "application/json"}}
	s := &backlog{s: &Service{cfg: Config{Log: slog.New(slog.DiscardHandler)}}}
	check := func(what, locale, title, data string) {
		t.Helper()
		if got := s.content(n, &dispatch.Delivery{Channel: push.FCM, Locale: locale}); got.Title != title || string(got.Data) != data {
			t.Errorf("%s: %q, data %s", what, got.Title, got.Data)
		}
	}
	check("without a template", "de", "Plan pro", `{"of":"publish"}`)
	n.Content.Push, _ = json.Marshal(says)
	check("of a template", "de-AT", "Tarif pro", `{"of":"template"}`)
	says.OwnData, says.Content.Data = true, nil
	n.Content.Push, _ = json.Marshal(says)
	check("with data of the publish", "fr", "Plan pro", `{"of":"publish"}`)
	n.Content.Push = []byte("{")
	check("damaged", "de", "Plan pro", `{"of":"publish"}`)
}
