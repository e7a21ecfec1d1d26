package admin_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// twoVariants is a posted form of a campaign with a second variant, and a rest.
func twoVariants() url.Values {
	return url.Values{
		"title": {"Sale"}, "body": {"Today"}, "url": {"https://example.org/a"}, "image": {"https://example.org/a.png"}, "button-0-text": {"Open"}, "button-0-url": {"https://example.org"},
		"channel": {"webhook"}, "track": {"on"}, "key": {"k"}, "b_title": {"Half price"}, "b_image": {"https://example.org/b.png"}, "share_a": {"20"}, "share_b": {"10"}, "decide_after": {"4h"},
	}
}

func TestASecondVariantSaysWhatItChangesAndFollowsTheFirst(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	id := b.create(twoVariants())
	stored := func() *campaign.Spec {
		t.Helper()
		c, err := w.store.Get(t.Context(), "shop", id)
		must(t, err)
		return &c.Spec
	}
	s := stored()
	second := s.Of(campaign.GroupB).Content
	if !s.Decides() || s.Variants[0].Share != 20 || s.Variants[1].Share != 10 || second.Title != "Half price" || second.Body != "Today" || second.URL != "https://example.org/a" ||
		second.Image != "https://example.org/b.png" || second.Telegram.Photo != "https://example.org/b.png" || len(second.Telegram.Buttons) != 1 {
		t.Fatalf("stored: %s", asJSON(t, s))
	}
	before := asJSON(t, s)
	_, page := b.get("/ui/campaigns/" + id + "/edit")
	form := formOf(t, page)
	if form.Get("b_title") != "Half price" || form.Get("b_body") != "" || form.Get("share_b") != "10" || form.Get("decide_after") != "4h" {
		t.Errorf("the form: %v", form)
	}
	b.post("/ui/campaigns/"+id, form)
	if after := asJSON(t, stored()); after != before {
		t.Errorf("saved unchanged it has become\n%s, it was\n%s", after, before)
	}
	form.Set("body", "Until noon")
	form.Set("button-0-text", "See")
	b.post("/ui/campaigns/"+id, form)
	if second = stored().Of(campaign.GroupB).Content; second.Body != "Until noon" || second.Telegram.Buttons[0][0].Text != "See" || second.Title != "Half price" {
		t.Errorf("the second does not follow the first: %+v", second)
	}
	_, page = b.post("/ui/campaigns/preview", form, "HX-Request", "true")
	wants(t, page, "Webhook · A", "Webhook · B", "Half price")
	_, page = b.get("/ui/campaigns/" + id + "/edit")
	form = formOf(t, page)
	for _, name := range []string{"b_title", "b_image", "share_a", "share_b", "decide_after"} {
		form.Set(name, "")
	}
	b.post("/ui/campaigns/"+id, form)
	if s = stored(); s.Tries() || s.DecideAfter != 0 {
		t.Errorf("without a second variant: %s", asJSON(t, s))
	}
}

func TestTheAPIsSecondVariantStaysAsItIs(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	spec := campaign.Spec{Content: campaign.Content{Content: push.Content{Title: "A", Body: "x"}, Language: "en", Locales: map[string]template.Variant{"fr": {Title: "Fr A"}}}}
	second := campaign.Content{Content: push.Content{Title: "B", Body: "x", Data: json.RawMessage(`{"b":1}`)}, Language: "en", Locales: map[string]template.Variant{"fr": {Title: "Fr B"}}}
	spec.Variants = []campaign.Variant{{Share: 50}, {Share: 50, Content: &second}}
	spec.Audience.Channels = []push.Channel{push.Webhook}
	c := &campaign.Campaign{ID: "01JUNVARIANTS0000000000000", App: "shop", Spec: spec, State: campaign.Draft, CreatedAt: time.Now()}
	_, err := w.store.Insert(t.Context(), c, "", [32]byte{})
	must(t, err)
	_, page := b.get("/ui/campaigns/" + c.ID + "/edit")
	form := formOf(t, page)
	form.Set("body", "y")
	form.Set("b_title", "B2")
	if status, page := b.post("/ui/campaigns/"+c.ID, form); status != http.StatusOK {
		t.Fatalf("answered %d:\n%s", status, page)
	}
	got, err := w.store.Get(t.Context(), "shop", c.ID)
	must(t, err)
	if v := got.Spec.Variants[1].Content; v.Title != "B2" || v.Body != "y" || v.Locales["fr"].Title != "Fr B" || string(v.Data) != `{"b":1}` {
		t.Errorf("the second variant is %s", asJSON(t, v))
	}
}

func TestATemplateIsTheSecondVariant(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	_, _, err := w.shelf.Set(t.Context(), "shop", "half", template.Content{Content: push.Content{Title: "Half"}}, template.Match{})
	must(t, err)
	form := twoVariants()
	form.Set("b_template", "half")
	if status, page := b.post("/ui/campaigns", form); status != http.StatusUnprocessableEntity || !strings.Contains(problemAt(t, page, "b_template"), "a message of its own") {
		t.Errorf("a template and texts are answered %d: %s", status, problemAt(t, page, "b_template"))
	}
	form.Set("b_title", "")
	form.Set("b_image", "")
	id := b.create(form)
	c, err := w.store.Get(t.Context(), "shop", id)
	must(t, err)
	if v := c.Spec.Variants[1]; v.Template != "half" || v.TemplateRevision != 1 || v.Content.Title != "Half" {
		t.Errorf("%s", asJSON(t, v))
	}
	_, page := b.get("/ui/campaigns/" + id + "/edit")
	if form = formOf(t, page); form.Get("b_template") != "half" || form.Get("b_title") != "" {
		t.Errorf("the form: %v", form)
	}
}

func TestMistakesOfVariantsAndLocalTimesStandBesideTheirFields(t *testing.T) {
	b := newWorld(t).signedIn()
	for _, c := range []struct {
		field, says string
		change      map[string]string
	}{
		{"share_a", "from 1 to 99", map[string]string{"share_a": "0"}},
		{"share_b", "not a number", map[string]string{"share_b": "many"}},
		{"share_b", "too much", map[string]string{"share_b": "90"}},
		{"decide_after", "is missing", map[string]string{"decide_after": ""}},
		{"decide_after", "not a duration", map[string]string{"decide_after": "soon"}},
		{"b_title", "a second variant is needed", map[string]string{"b_title": "", "b_image": ""}},
		{"b_url", "", map[string]string{"b_url": "javascript:alert(1)"}},
		{"b_title", "in its own language alone", map[string]string{"locale-0-tag": "fr", "locale-0-title": "Solde"}},
		{"b_template", "has no template none", map[string]string{"b_template": "none", "b_title": "", "b_image": ""}},
		{"local_at", "has passed", map[string]string{"local_at": "2020-01-01T09:00", "then": "ask"}},
		{"local_at", "has passed", map[string]string{"local_at": "2020-01-01T09:00"}},
		{"local_at", "is empty", map[string]string{"local_passed": "now"}},
		{"fallback", "not a time zone", map[string]string{"local_at": "2020-01-01T09:00", "fallback": "Mars", "then": "ask"}},
		{"track", "must be on", map[string]string{"track": ""}},
	} {
		form := twoVariants()
		for name, value := range c.change {
			if form.Set(name, value); name == "track" {
				form.Del(name)
			}
		}
		status, page := b.post("/ui/campaigns", form)
		got := problemAt(t, page, c.field)
		if c.field == "track" { // a tick box has no problem beside it
			got = page
		}
		if status != http.StatusUnprocessableEntity || got == "" || !strings.Contains(strings.ToLower(got), strings.ToLower(c.says)) {
			t.Errorf("%v is answered %d: %.200q, want %q", c.change, status, got, c.says)
		}
	}
}

func TestACampaignWithVariantsIsAskedAboutReportedAndDecided(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	for i := range 60 {
		w.subscribe("shop", "n"+strings.Repeat("x", i))
	}
	form := twoVariants()
	form.Set("then", "ask")
	_, page := b.post("/ui/campaigns", form)
	wants(t, page, "Send it to 60 addresses over Webhook", "A to 20 %, B to 10 %; the rest gets the one with more clicks, 4h after both were sent")
	again := formOf(t, page)
	again.Set("then", "start")
	_, page = b.post("/ui/campaigns", again)
	wants(t, page, `id="compared"`, `data-variant="A"`, `data-variant="Rest"`, "The rest")
	list, err := w.store.List(t.Context(), "shop", 1, 0)
	must(t, err)
	id := list[0].ID
	if !eventually.Holds(func() bool {
		_, page = b.get("/ui/campaigns/" + id + "/deliveries?outcome=pending")
		return strings.Contains(page, "waits until the better variant is known")
	}) {
		t.Errorf("what the rest waits for is not said:\n%s", page)
	}
	_, page = b.post("/ui/campaigns/"+id+"/decide-b", url.Values{})
	wants(t, page, "The rest gets B: somebody chose it.", "the rest gets it")
	if strings.Contains(page, "decide-a") {
		t.Error("the page offers another decision")
	}
	if status, page := b.post("/ui/campaigns/"+id+"/decide-a", url.Values{}); status != http.StatusConflict || !strings.Contains(page, "the rest gets B") {
		t.Errorf("another decision is answered %d:\n%s", status, page)
	}
}

func TestALocalTimeIsSaidBeforeItIsSent(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	must(t, register(w, "Europe/Oslo"))
	at := time.Now().UTC().Add(72*time.Hour).Format("2006-01-02") + "T09:00"
	form := url.Values{"title": {"x"}, "channel": {"webhook"}, "local_at": {at}, "fallback": {"Europe/Oslo"}, "then": {"ask"}, "key": {"k"}}
	_, page := b.post("/ui/campaigns", form)
	wants(t, page, at+" where each recipient is, or in Europe/Oslo for those whose zone is not known; a day later where that has passed")
	again := formOf(t, page)
	again.Set("then", "start")
	_, page = b.post("/ui/campaigns", again)
	wants(t, page, `data-state="scheduled"`, "Sent at")
	list, err := w.store.List(t.Context(), "shop", 1, 0)
	must(t, err)
	if l := list[0].Spec.Local; l == nil || l.At != at || l.Fallback != "Europe/Oslo" {
		t.Errorf("stored: %+v", l)
	}
	_, page = b.get("/ui/campaigns/" + list[0].ID + "/edit")
	if form = formOf(t, page); form.Get("local_at") != at || form.Get("send_at") != "" {
		t.Errorf("the form: %v", form)
	}
	form.Set("then", "start")
	if status, page := b.post("/ui/campaigns/"+list[0].ID, form); status != http.StatusOK || !strings.Contains(page, `data-state="scheduled"`) {
		t.Errorf("saved unchanged it is answered %d:\n%s", status, page)
	}
}

// register adds a webhook endpoint in a time zone.
func register(w *world, zone string) error {
	address, err := audience.NormalAddress(push.Webhook, json.RawMessage(`{"url":"https://example.org/zone"}`))
	if err != nil {
		return err
	}
	_, err = w.store.Register(w.Context(), "shop", []audience.Registration{{Trusted: true, Endpoint: audience.Endpoint{
		App: "shop", Channel: push.Webhook, Address: address, Timezone: zone, Status: audience.Active,
	}}})
	return err
}
