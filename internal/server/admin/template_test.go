package admin_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/sending/push"
)

// closed returns a template that leaves one place open, and has more settings than the form shows.
func closed() template.Content {
	return template.Content{
		Content: push.Content{
			Title: " Hi {{name|friend}}", Body: "The {{place}} is closed.", Data: json.RawMessage(`{"a": 1}`), FCM: push.FCMContent{Sound: "bell"},
			Telegram: push.TelegramContent{Silent: true, Buttons: [][]push.TelegramLink{{{Text: "Map", URL: "https://example.org/{{place}}"}}}},
			WebPush:  push.WebPushContent{Actions: []push.Action{{Title: "Map", URL: "/map"}}},
		},
		Language: "en",
		Locales: map[string]template.Variant{"fr": {
			Body:     "{{place}} : fermé.",
			Telegram: &template.VariantTelegram{Buttons: [][]push.TelegramLink{{{Text: "Carte", URL: "https://example.org/carte"}}}},
		}},
	}
}

func (w *world) stores(app, name string, c template.Content) {
	w.Helper()
	_, _, err := w.shelf.Set(w.Context(), app, name, c, template.Match{})
	must(w.T, err)
}

func (w *world) spec(id string) campaign.Spec {
	w.Helper()
	c, err := w.store.Get(w.Context(), "shop", id)
	must(w.T, err)
	return c.Spec
}

// uses chooses a template in a form and returns the filled form.
func (b *browser) uses(path, name string, form url.Values) url.Values {
	b.Helper()
	form.Set("template", name)
	form.Set("then", "template")
	status, page := b.post(path, form)
	if status != http.StatusOK {
		b.Fatalf("to use template %s is answered %d:\n%s", name, status, page)
	}
	return formOf(b.T, page)
}

func TestACampaignIsMadeOfATemplateWithoutAScript(t *testing.T) {
	w := newWorld(t)
	w.stores("shop", "closed", closed())
	b := w.signedIn()
	_, page := b.get("/ui/campaigns/new")
	form := formOf(t, page)
	form.Set("name", "Sunday")
	form.Set("tags_any", "news")
	form.Set("title", "To be replaced")
	form.Set("silent", "on")
	form.Set("action-2-title", "To be replaced")
	form = b.uses("/ui/campaigns", "closed", form)
	for name, want := range map[string]string{
		"name": "Sunday", "tags_any": "news", "title": " Hi {{name|friend}}", "body": "The {{place}} is closed.", "button-0-text": "Map", "locale-0-button-0-text": "Carte",
		"action-0-title": "Map", "action-1-title": "", "variable-place": "", "variable-name": "", "used": "closed", "used_revision": "1",
	} {
		if got := form.Get(name); got != want || !form.Has(name) && name != "action-1-title" {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	_, page = b.post("/ui/campaigns/preview", form, "HX-Request", "true")
	wants(t, page, "Of template closed.", "The {{place}} is closed.")
	form.Set("then", "draft")
	status, page := b.post("/ui/campaigns", form)
	if says := problemAt(t, page, "variable-place"); status != http.StatusUnprocessableEntity || says != "Is missing: the message says {{place}}, and nobody has an attribute of that name." {
		t.Errorf("without its variable it is answered %d, and says %q", status, says)
	}
	form = formOf(t, page)
	form.Set("variable-place", "bridge <b>")
	form.Set("channel", "telegram")
	id := b.create(form)
	got, want := w.spec(id), closed()
	if got.Template != "closed" || got.TemplateRevision != 1 || asJSON(t, got.Variables) != asJSON(t, map[string]string{"place": "bridge <b>"}) || asJSON(t, got.Content) != asJSON(t, want) {
		t.Errorf("it is %s", asJSON(t, got))
	}
	_, page = b.get("/ui/campaigns/" + id)
	wants(t, page, "closed, revision 1", "place = bridge &lt;b&gt;", "The bridge &lt;b&gt; is closed.", "Carte")

	w.stores("shop", "closed", template.Content{Content: push.Content{Title: "Changed"}})
	_, page = b.get("/ui/campaigns/" + id + "/edit")
	form = formOf(t, page)
	form.Set("variable-place", "")
	status, page = b.post("/ui/campaigns/"+id, form)
	if says := problemAt(t, page, "variable-place"); status != http.StatusUnprocessableEntity || says == "" {
		t.Errorf("a campaign whose variable is emptied is answered %d, and says %q", status, says)
	}
	form.Set("variable-place", "pier")
	b.post("/ui/campaigns/"+id, form)
	if got := w.spec(id); got.TemplateRevision != 1 || got.Variables["place"] != "pier" || asJSON(t, got.Content) != asJSON(t, want) {
		t.Errorf("with another variable it is %s", asJSON(t, got))
	}
	_, page = b.get("/ui/campaigns/" + id + "/edit")
	form = formOf(t, page)
	form.Set("body", "The {{place}} is open.")
	_, page = b.post("/ui/campaigns/preview", form)
	wants(t, page, "The message was changed: it is no longer of template closed.", "No longer of template closed: the message was changed.")
	b.post("/ui/campaigns/"+id, form)
	if got := w.spec(id); got.Template != "" || got.TemplateRevision != 0 || got.Variables["place"] != "pier" || got.Content.FCM.Sound != "bell" {
		t.Errorf("with another text it is %s", asJSON(t, got))
	}
	_, page = b.get("/ui/campaigns/" + id + "/edit")
	form = b.uses("/ui/campaigns/"+id, "closed", formOf(t, page))
	if form.Get("title") != "Changed" || form.Get("used_revision") != "2" || form.Has("variable-place") {
		t.Errorf("used again the form is %v", form)
	}
	form.Set("then", "draft")
	b.post("/ui/campaigns/"+id, form)
	if got := w.spec(id); got.TemplateRevision != 2 || len(got.Variables) > 0 || got.Content.FCM.Sound != "" {
		t.Errorf("of the next revision it is %s", asJSON(t, got))
	}
}

func TestATemplateThatIsNoLongerWhatItWasIsRefusedBesideItsField(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	if _, page := b.get("/ui/campaigns/new"); strings.Contains(page, `id="template"`) {
		t.Error("an app without templates is asked for one")
	}
	w.stores("shop", "closed", closed())
	_, page := b.get("/ui/campaigns/new")
	form := b.uses("/ui/campaigns", "closed", formOf(t, page))
	form.Set("variable-place", "pier")
	refused := func(says string, change func(form url.Values)) {
		t.Helper()
		posted := make(url.Values)
		for name, values := range form {
			posted[name] = append([]string{}, values...)
		}
		change(posted)
		status, page := b.post("/ui/campaigns", posted)
		if got := problemAt(t, page, "template"); status != http.StatusUnprocessableEntity || !strings.Contains(got, says) {
			t.Errorf("answered %d with %q, want %q", status, got, says)
		}
		if again := formOf(t, page); again.Get("variable-place") != "pier" || again.Get("body") != "The {{place}} is closed." {
			t.Errorf("%s: what was typed has become %v", says, again)
		}
	}
	refused("chosen and not used yet", func(form url.Values) { form.Set("template", "other") })
	refused("has no template <b>", func(form url.Values) { form.Set("template", "<b>"); form.Set("then", "template") })
	w.stores("shop", "closed", template.Content{Content: push.Content{Title: "Changed"}})
	refused("is at revision 2. Use it again", func(url.Values) {})
	must(t, w.shelf.Delete(t.Context(), "shop", "closed", template.Match{}))
	refused("has no template closed any more", func(url.Values) {})
	w.stores("other", "closed", closed())
	refused("has no template closed any more", func(url.Values) {})
	form.Set("template", "") // the message as it is becomes the campaign's own
	got := w.spec(b.create(form))
	if got.Template != "" || got.Content.Body != "The {{place}} is closed." || got.Variables["place"] != "pier" {
		t.Errorf("without the template it is %s", asJSON(t, got))
	}
}

func TestAVariableThatRecipientsHaveIsNotMissing(t *testing.T) {
	w := newWorld(t)
	w.stores("shop", "closed", closed())
	address, err := audience.NormalAddress(push.Webhook, json.RawMessage(`{"url":"https://example.org/ada"}`))
	must(t, err)
	_, err = w.store.Register(t.Context(), "shop", []audience.Registration{{Trusted: true, Endpoint: audience.Endpoint{
		App: "shop", Channel: push.Webhook, Address: address, Attributes: audience.Attributes{"place": audience.Text("pier")}, Status: audience.Active,
	}}})
	must(t, err)
	b := w.signedIn()
	_, page := b.get("/ui/campaigns/new")
	got := w.spec(b.create(b.uses("/ui/campaigns", "closed", formOf(t, page))))
	if got.Template != "closed" || len(got.Variables) > 0 {
		t.Errorf("it is %s", asJSON(t, got))
	}
}

func TestButtonsOfALanguageAreWrittenInItsPart(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	form := url.Values{
		"title": {"x"}, "key": {"k"}, "locale-0-tag": {"de"}, "locale-0-title": {"Hallo"}, "locale-1-tag": {"fr"},
		"locale-1-button-0-text": {"A"}, "locale-1-button-0-url": {"https://example.org/a"}, "locale-1-button-2-text": {"C"}, "locale-1-button-2-url": {"https://example.org/c"}, "locale-1-button-2-beside": {"on"},
		"locale-1-action-1-title": {"Plan"},
	}
	id := b.create(form)
	fr := w.spec(id).Content.Locales["fr"]
	if got, want := asJSON(t, fr), `{"telegram":{"buttons":[[{"text":"A","url":"https://example.org/a"},{"text":"C","url":"https://example.org/c"}]]},"webpush":{"actions":[{"action":"button-1","title":"Plan"}]}}`; got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
	_, page := b.get("/ui/campaigns/" + id + "/edit")
	form = formOf(t, page)
	form.Set("locale-0-tag", "") // the first language is removed, and the other moves into its place with its buttons
	form.Set("locale-0-title", "")
	form.Set("then", "more-locale-1-button")
	_, page = b.post("/ui/campaigns/"+id, form)
	form = formOf(t, page)
	if form.Get("locale-0-tag") != "fr" || form.Get("locale-0-button-1-text") != "C" || form.Get("locale-0-button-1-beside") != "on" || form.Has("locale-1-tag") {
		t.Errorf("the form has become %v", form)
	}
	wants(t, page, `name="locale-0-button-2-text" type="text" value="" maxlength="256" autocomplete="off" autofocus`)
	form.Set("then", "more-locale")
	_, page = b.post("/ui/campaigns/"+id, form)
	form = formOf(t, page)
	form.Set("then", "more-locale-1-action") // for a language whose line is still empty
	_, page = b.post("/ui/campaigns/"+id, form)
	wants(t, page, `name="locale-1-action-0-title" type="text" value="" autocomplete="off" autofocus`)
	form.Set("then", "draft")
	b.post("/ui/campaigns/"+id, form)
	if got := w.spec(id).Content.Locales; len(got) != 1 || asJSON(t, got["fr"]) != asJSON(t, fr) {
		t.Errorf("without the first language there are %s", asJSON(t, got))
	}
}
