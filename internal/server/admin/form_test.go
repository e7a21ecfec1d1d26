package admin_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/sending/push"
)

// formOf returns the values that a browser would post from a page with a campaign's form.
func formOf(t *testing.T, page string) url.Values {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	must(t, err)
	v := make(url.Values)
	var in *html.Node
	for n := range doc.Descendants() {
		if attribute(n, "id") == "compose" {
			in = n
		}
	}
	if in == nil {
		t.Fatalf("the page has no form:\n%s", page)
	}
	for n := range in.Descendants() {
		name := attribute(n, "name")
		if n.Type != html.ElementNode || name == "" || has(n, "disabled") {
			continue
		}
		switch n.Data {
		case "textarea":
			text := ""
			if n.FirstChild != nil {
				text = n.FirstChild.Data
			}
			v.Add(name, strings.ReplaceAll(text, "\n", "\r\n"))
		case "select":
			for o := range n.Descendants() {
				if o.Data == "option" && has(o, "selected") {
					v.Add(name, attribute(o, "value"))
				}
			}
		case "input":
			switch {
			case attribute(n, "type") != "checkbox":
				v.Add(name, attribute(n, "value"))
			case has(n, "checked") && has(n, "value"):
				v.Add(name, attribute(n, "value"))
			case has(n, "checked"):
				v.Add(name, "on")
			}
		}
	}
	return v
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key {
			return true
		}
	}
	return false
}

// problemAt returns the problem that a page shows beside a field.
func problemAt(t *testing.T, page, field string) string {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	must(t, err)
	for n := range doc.Descendants() {
		if attribute(n, "id") == field+"-problem" && n.FirstChild != nil {
			return n.FirstChild.Data
		}
	}
	return ""
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

// everything returns a campaign that uses every setting, some with values finer than the form shows.
func everything() campaign.Spec {
	no, badge := false, 3
	return campaign.Spec{
		Name: "Spring",
		Content: campaign.Content{
			Content: push.Content{
				Title: "Dear {{name|friend}}", Body: "One\nTwo <b>", Icon: "https://example.org/i.png", Image: "https://example.org/p.png", URL: "/news",
				Category: "news", Data: json.RawMessage(`{"a":[1,2]}`),
				Telegram: push.TelegramContent{ParseMode: "HTML", Silent: true, NoPreview: true, Video: "https://example.org/v.mp4", Buttons: [][]push.TelegramLink{
					{{Text: "A", URL: "https://example.org/a"}, {Text: "B", URL: "tg://b"}}, {{Text: "C", URL: "https://example.org/{{city}}"}},
				}},
				WebPush: push.WebPushContent{RequireInteraction: true, Actions: []push.Action{
					{Action: "map", Title: "Map", URL: "https://example.org/m"}, {Action: "x", Title: "X", Icon: "https://example.org/x.png"},
				}},
				FCM: push.FCMContent{Sound: "default"}, APNs: push.APNsContent{Badge: &badge},
				Activity: &push.ActivityContent{Type: "TideAttributes", State: json.RawMessage(`{"cm":7}`)},
			},
			Language: "en",
			Locales: map[string]template.Variant{
				"fr": {
					Title: "Cher", Body: "Un\nDeux", Data: json.RawMessage(`{"b":1}`),
					Telegram: &template.VariantTelegram{Buttons: [][]push.TelegramLink{{{Text: "D", URL: "https://example.org/d"}, {Text: "E", URL: "tg://e"}}, {{Text: "F", URL: "https://example.org/f"}}}},
					WebPush:  &template.VariantWebPush{Actions: []push.Action{{Action: "plan", Title: "Plan", URL: "/plan", Icon: "https://example.org/x.png"}}},
				},
				"fr-CA": {Title: "Salut", URL: "/ca", Icon: "https://example.org/ca.png", Image: "https://example.org/ca2.png"},
			},
		},
		Template: "tide", TemplateRevision: 2, Variables: map[string]string{"city": "Oslo"},
		Rate: 1.0 / 7, Spread: campaign.Duration(90 * time.Minute), TTL: campaign.Duration(36 * time.Hour), Priority: push.UrgencyHigh, Collapse: "tide",
		Expires: time.Now().Add(30 * 24 * time.Hour).UTC().Truncate(time.Second), UTM: "utm_source=a&utm_medium=b", Track: &no,
		Quiet: &campaign.QuietHours{From: "22:00", To: "07:00", Timezone: "Europe/Oslo", Fallback: "Asia/Kolkata"},
	}
}

func TestTheFormSaysAllThatTheAPITakesAndKeepsTheRest(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	spec := everything()
	spec.Audience.TagsAny, spec.Audience.TagsAll = []string{"news", "sport"}, []string{"adult"}
	spec.Audience.Where, spec.Audience.Recipients, spec.Audience.Channels = `age >= 18`, []string{"ada", "eve:2"}, []push.Channel{push.Telegram, push.Webhook}
	must(t, spec.Check(time.Now(), time.Time{}))

	id := b.create(url.Values{"title": {"x"}, "key": {"k"}})
	_, err := w.store.Change(t.Context(), "shop", id, func(c *campaign.Campaign) error { c.Spec = spec; return nil })
	must(t, err)
	_, page := b.get("/ui/campaigns/" + id + "/edit")
	wants(t, page, "Stays as it is: what is for Android alone (fcm), what is for Apple&#39;s devices alone (apns)")
	form := formOf(t, page)
	b.post("/ui/campaigns/"+id, form)
	c, err := w.store.Get(t.Context(), "shop", id)
	must(t, err)
	if got, want := asJSON(t, c.Spec), asJSON(t, spec); got != want {
		t.Errorf("saved unchanged it has become\n%s, it was\n%s", got, want)
	}

	spec.Template, spec.TemplateRevision = "", 0
	spec.Content.Title = "Another"
	form.Set("title", "Another")
	b.post("/ui/campaigns/"+id, form)
	c, err = w.store.Get(t.Context(), "shop", id)
	must(t, err)
	if got, want := asJSON(t, c.Spec), asJSON(t, spec); got != want {
		t.Errorf("with another title it has become\n%s, want\n%s", got, want)
	}

	form.Set("key", "another")
	form.Set("template", "")
	form.Del("id")
	made := b.create(form) // the form alone, without the settings kept from the stored campaign
	spec.Content.FCM, spec.Content.APNs, spec.Content.Activity = push.FCMContent{}, push.APNsContent{}, nil
	if c, err = w.store.Get(t.Context(), "shop", made); err != nil {
		t.Fatal(err)
	}
	got := c.Spec
	got.Rate, got.Expires = spec.Rate, spec.Expires // finer than the form says
	if got, want := asJSON(t, got), asJSON(t, spec); got != want {
		t.Errorf("the form says\n%s, want\n%s", got, want)
	}
	_, page = b.post("/ui/campaigns/preview", form, "HX-Request", "true")
	wants(t, page, "video https://example.org/v.mp4", "no preview of links", `<span class="chip">B<small>tg://b`, "Salut", "title and text are HTML", `<span class="chip">E<small>tg://e`)
}

func TestTheFormGrowsWithoutAScript(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	_, page := b.get("/ui/campaigns/new")
	form := formOf(t, page)
	form.Set("title", "Hello")
	form.Set("button-0-text", "Open")
	form.Set("button-0-url", "https://example.org")
	form.Set("then", "more-button")
	_, page = b.post("/ui/campaigns", form)
	wants(t, page, `value="Hello"`, `id="button-1-text"`, `id="button-1-text" name="button-1-text" type="text" value="" maxlength="256" autocomplete="off" autofocus`)
	form = formOf(t, page)
	form.Set("button-1-text", "Beside")
	form.Set("button-1-url", "https://example.org/2")
	form.Set("button-1-beside", "on")
	form.Set("button-2-text", "Yes")
	form.Set("button-2-callback", "yes")
	form.Set("button-2-ack", "on")
	_, page = b.post("/ui/campaigns/preview", form)
	wants(t, page, "<!doctype html>", `class="bubble"`, "Hello")
	id := b.create(formOf(t, page))
	c, err := w.store.Get(t.Context(), "shop", id)
	must(t, err)
	if rows := c.Spec.Content.Telegram.Buttons; len(rows) != 2 || rows[1][0] != (push.TelegramLink{Text: "Yes", Callback: "yes", Ack: true}) || len(rows[0]) != 2 || rows[0][1].Text != "Beside" {
		t.Errorf("its buttons are %v", rows)
	}
	_, page = b.post("/ui/campaigns/"+id+"/test", url.Values{"to": {"nobody"}})
	wants(t, page, "<!doctype html>", `value="nobody"`, "nobody has no active address")
	_, page = b.post("/ui/campaigns/"+id+"/cancel", nil)
	wants(t, page, "<!doctype html>", `data-state="cancelled"`)
	_, page = b.post("/ui/audience/count", url.Values{"where": {"age > 3"}})
	wants(t, page, "<!doctype html>", `value="age &gt; 3"`, "<b>0</b> active addresses match")
}

func TestEachFieldSaysWhatIsWrongWithItAndLosesNothing(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	long := strings.Repeat("ä", 17<<10)
	for i, c := range []struct {
		field, typed, says string
		more               url.Values
	}{
		{"name", strings.Repeat("n", 201), "at most 200 characters", nil},
		{"title", "", "an empty message says nothing", url.Values{"body": {""}, "then": {"ask"}}},
		{"title", "{{<b>}}", "is not the name of an attribute", nil},
		{"body", "{{name", "has {{ without }}", nil},
		{"body", long, "at most 32,768 are allowed", nil},
		{"url", "javascript:alert(1)", "must be an https or http URL", nil},
		{"url", "https://{{host}}", "must be an https or http URL", nil},
		{"icon", "{{", "has {{ without }}", nil},
		{"image", "{{a b}}", "is not the name of an attribute", nil},
		{"utm", "a b", "must be a query", nil},
		{"data", "{", "is not JSON", nil},
		{"tags_any", "news,a|b", "is no tag", nil},
		{"tags_all", strings.Repeat("t", 300), "are allowed", nil},
		{"where", `city = "`, "", nil},
		{"recipients", "ada\neve <b>", "allowed are A-Z", nil},
		{"channel", "<b>", "is not a channel", nil},
		{"channel", "mqtt", "is not a channel", nil},
		{"rate", "<b>", "is not a rate", nil},
		{"spread", "30d", "at most 7 days", nil},
		{"spread", "soon", "is not a duration", nil},
		{"ttl", "60d", "at most 28 days", nil},
		{"send_at", "tomorrow", "is not a date and a time", nil},
		{"expires_at", "2001-01-01T00:00", "lies before", nil},
		{"priority", "urgent", "is none of high, normal, low", nil},
		{"collapse_key", "a b", "allowed are A-Z", nil},
		{"quiet_from", "25:00", "is not a time of day", url.Values{"quiet_to": {"07:00"}}},
		{"quiet_to", "22:00", "is the same as from", url.Values{"quiet_from": {"22:00"}}},
		{"quiet_timezone", "Mars/Base", "", url.Values{"quiet_from": {"22:00"}, "quiet_to": {"07:00"}}},
		{"fallback", "Mars/Base", "", url.Values{"quiet_from": {"22:00"}, "quiet_to": {"07:00"}}},
		{"parse_mode", "BBCode", "is none of HTML", nil},
		{"media", "hologram", "is none of photo", nil},
		{"album", "photo", "write each line like", nil},
		{"album", "photo f", "has 1 media", nil},
		{"album", "photo f\naudio f", "mixes photos and videos only", nil},
		{"media", "", "say what is at the URL", url.Values{"media_url": {"https://example.org/v"}}},
		{"media_url", "", "is needed", url.Values{"media": {"video"}}},
		{"media_url", strings.Repeat("v", 3000), "at most 2,048", url.Values{"media": {"document"}}},
		{"button-0-text", " ", "must be text of 1 to 256 bytes", url.Values{"button-0-url": {"https://example.org"}}},
		{"button-1-url", "javascript:alert(1)", "must be an https or http URL", url.Values{
			"button-0-text": {"A"}, "button-0-url": {"https://example.org"}, "button-1-text": {"B"}, "button-1-beside": {"on"},
		}},
		{"action-0-title", "", "is required", url.Values{"action-0-url": {"https://example.org"}}},
		{"action-0-url", "javascript:alert(1)", "must be an https or http URL", url.Values{"action-0-title": {"A"}}},
		{"locale-0-tag", "", "say which language", url.Values{"locale-0-title": {"Bonjour"}}},
		{"locale-0-tag", "<b>", "is not a language tag", url.Values{"locale-0-title": {"Bonjour"}}},
		{"locale-1-tag", "fr", "is there twice", url.Values{"locale-0-tag": {"fr"}, "locale-0-title": {"a"}, "locale-1-title": {"b"}}},
		{"locale-1-url", "//evil", "must be an https or http URL", url.Values{"locale-0-tag": {"fr"}, "locale-0-title": {"a"}, "locale-1-tag": {"de"}}},
		{"language", "<b>", "is not a language tag", nil},
		{"locale-0-tag", "en", "is the language of the content itself", url.Values{"language": {"en"}, "locale-0-title": {"Hello"}}},
		{"locale-0-data", "nope", "is not JSON", url.Values{"locale-0-tag": {"fr"}}},
		{"locale-0-tag", "", "say which language", url.Values{"locale-0-button-0-text": {"Carte"}, "locale-0-button-0-url": {"https://example.org"}}},
		{"locale-0-button-0-text", strings.Repeat("b", 257), "must be text of 1 to 256 bytes", url.Values{"locale-0-tag": {"fr"}, "locale-0-button-0-url": {"https://example.org"}}},
		{"locale-1-button-1-url", "javascript:alert(1)", "must be an https or http URL", url.Values{
			"locale-0-tag": {"de"}, "locale-0-title": {"a"}, "locale-1-tag": {"fr"},
			"locale-1-button-0-text": {"A"}, "locale-1-button-0-url": {"https://example.org"}, "locale-1-button-1-text": {"B"}, "locale-1-button-1-beside": {"on"},
		}},
		{"locale-0-action-0-title", "", "is required", url.Values{"locale-0-tag": {"fr"}, "locale-0-action-0-url": {"https://example.org"}}},
		{"locale-0-action-0-url", "javascript:alert(1)", "must be an https or http URL", url.Values{"locale-0-tag": {"fr"}, "locale-0-action-0-title": {"A"}}},
		{"variable-place", strings.Repeat("p", 5000), "at most 4,096 bytes", nil},
		{"template", "tide", "is chosen and not used yet", nil},
		{"title", "a\xffb", "is not text in UTF-8", nil},
		{"body", "a\x00b", "control characters", nil},
	} {
		form := url.Values{"title": {"Kept title"}, "body": {"Kept <b>body</b>"}, "key": {t.Name()}, "then": {"draft"}}
		for name, values := range c.more {
			form[name] = values
		}
		form.Set(c.field, c.typed)
		status, page := b.post("/ui/campaigns", form)
		if says := problemAt(t, page, c.field); status != http.StatusUnprocessableEntity || says == "" || !strings.Contains(strings.ToLower(says), strings.ToLower(c.says)) {
			t.Errorf("%d: %s = %.40q is answered %d, and says %q beside it, want %q", i, c.field, c.typed, status, says, c.says)
			continue
		}
		checkHarmless(t, c.field, page)
		again := formOf(t, page)
		for name, values := range form {
			if name == "then" || name == "channel" {
				continue
			}
			want := strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(values[0], "\xff", ""), "\x00", ""))
			if got := strings.TrimSpace(strings.ReplaceAll(again.Get(name), "\r\n", "\n")); got != want {
				t.Errorf("%d: %s was %.60q and is %.60q", i, name, want, got)
			}
		}
	}
	if list, err := w.store.List(t.Context(), "shop", 10, 0); err != nil || len(list) > 0 {
		t.Errorf("%d campaigns were made, %v", len(list), err)
	}
	if status, page := b.post("/ui/campaigns", url.Values{"body": {strings.Repeat("x", 300<<10)}}); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a form without end is answered %d:\n%s", status, page)
	}
}

func TestCampaignThatCannotStartStaysADraftInTheForm(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	form := url.Values{"title": {"x"}, "channel": {"telegram"}, "then": {"start"}, "key": {"k"}}
	status, page := b.post("/ui/campaigns", form, "HX-Request", "true")
	wants(t, page, "saved as a draft")
	found := regexp.MustCompile(`action="/ui/campaigns/([0-9A-Z]{26})"`).FindStringSubmatch(page)
	if status != http.StatusConflict || found == nil || !strings.Contains(problemAt(t, page, "channel"), "not set up") {
		t.Fatalf("answered %d:\n%s", status, page)
	}
	form.Set("channel", "webhook")
	if _, page = b.post("/ui/campaigns/"+found[1], form); !strings.Contains(page, "data-state=") {
		t.Errorf("the form does not go on:\n%s", page)
	}
	if list, err := w.store.List(t.Context(), "shop", 10, 0); err != nil || len(list) != 1 {
		t.Errorf("there are %d campaigns, %v", len(list), err)
	}
}

func TestACampaignIsAskedAboutAfterItsChecks(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	w.subscribe("shop", "a")
	w.subscribe("shop", "b")
	form := url.Values{"title": {"x"}, "channel": {"webhook"}, "then": {"ask"}, "key": {"k"}, "rate": {"fast"}, "quiet_from": {"22:00"}, "quiet_to": {"08:00"}}
	if status, page := b.post("/ui/campaigns", form); status != http.StatusUnprocessableEntity || strings.Contains(page, `id="question"`) {
		t.Fatalf("a mistake is asked about: %d\n%s", status, page)
	}
	form.Set("rate", "1/m")
	status, page := b.post("/ui/campaigns", form)
	wants(t, page, "Send it to 2 addresses over Webhook, about 2 minutes at 1 a minute?", `data-over="webhook"`, "22:00 to 08:00, the recipient", `id="ends"`, "about 2 minutes after you send it; where it is quiet then")
	if list, err := w.store.List(t.Context(), "shop", 10, 0); status != http.StatusOK || err != nil || len(list) > 0 {
		t.Fatalf("before the answer: %d, %d campaigns, %v", status, len(list), err)
	}
	again := formOf(t, page)
	again.Set("then", "back")
	if _, page = b.post("/ui/campaigns", again); strings.Contains(page, `id="question"`) || !strings.Contains(page, `value="1/m"`) {
		t.Errorf("back in the form:\n%s", page)
	}
	again.Set("then", "start")
	again.Set("title", "y")
	_, page = b.post("/ui/campaigns", again)
	wants(t, page, "It was changed after the question", `id="question"`)
	again = formOf(t, page)
	again.Set("then", "start")
	if _, page = b.post("/ui/campaigns", again); !strings.Contains(page, `data-state="running"`) {
		t.Errorf("after the answer:\n%s", page)
	}
}

func TestADraftMayBeUnfinishedAndHaveATime(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	w.subscribe("shop", "news")
	at := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Minute)
	form := url.Values{"name": {"Later"}, "channel": {"webhook"}, "tags_any": {"news"}, "send_at": {at.Format("2006-01-02T15:04")}, "then": {"draft"}, "key": {"k"}, "rate": {"fast"}}
	if status, page := b.post("/ui/campaigns", form); status != http.StatusUnprocessableEntity || problemAt(t, page, "rate") == "" || problemAt(t, page, "title") != "" {
		t.Fatalf("a mistake in a draft is answered %d:\n%s", status, page)
	}
	form.Set("rate", "5/s")
	id := b.create(form)
	c, err := w.store.Get(t.Context(), "shop", id)
	must(t, err)
	if c.State != campaign.Draft || !c.SendAt.Equal(at) || c.Spec.Name != "Later" || c.Spec.Rate != 5 {
		t.Fatalf("kept as %s at %s: %+v", c.State, c.SendAt, c.Spec)
	}
	status, page := b.post("/ui/campaigns/"+id+"/start", nil)
	if wants(t, page, "It cannot be sent as it is", `<a href="/ui/campaigns/`+id+`/edit?check#title">Title</a>: Write a title or a text`); status != http.StatusUnprocessableEntity || strings.Contains(page, "content.title") {
		t.Errorf("without a message its start is answered %d:\n%s", status, page)
	}
	if _, page = b.get("/ui/campaigns/" + id + "/edit?check"); problemAt(t, page, "title") == "" {
		t.Errorf("the form does not show what is missing:\n%s", page)
	}
	if _, page = b.get("/ui/campaigns/" + id + "/edit"); problemAt(t, page, "title") != "" {
		t.Errorf("the form complains of what nobody has asked:\n%s", page)
	}
	form = formOf(t, page)
	if form.Get("send_at") != at.Format("2006-01-02T15:04") || form.Get("name") != "Later" || form.Get("title") != "" {
		t.Errorf("the form: %v", form)
	}
	form.Set("title", "Written")
	form.Set("then", "draft")
	_, page = b.post("/ui/campaigns/"+id, form)
	wants(t, page, `data-state="draft"`, "beginning ")
	_, page = b.post("/ui/campaigns/"+id+"/start", nil)
	wants(t, page, `data-state="scheduled"`)
	if c, err = w.store.Get(t.Context(), "shop", id); err != nil || !c.SendAt.Equal(at) {
		t.Errorf("scheduled for %s, %v", c.SendAt, err)
	}
}

func TestAChannelThatIsNotSetUpIsAMistakeBeforeTheQuestion(t *testing.T) {
	b := newWorld(t).signedIn()
	status, page := b.post("/ui/campaigns", url.Values{"title": {"x"}, "channel": {"telegram"}, "then": {"ask"}, "key": {"k"}})
	if status != http.StatusConflict || !strings.Contains(problemAt(t, page, "channel"), "not set up") || strings.Contains(page, `id="question"`) {
		t.Errorf("answered %d:\n%s", status, page)
	}
}

// Clocks show an hour twice when they go back, and a form has no more than what they show.
func TestATimeThatClocksShowTwiceStaysInAForm(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	zone, err := time.LoadLocation("Europe/Oslo")
	must(t, err)
	_, back := time.Now().In(zone).ZoneBounds()
	if back.In(zone).IsDST() { // it is winter: the next change goes forward
		_, back = back.In(zone).ZoneBounds()
	}
	second := back.Add(30 * time.Minute).UTC() // 02:30 for the second time
	at := func(t time.Time) string { return t.Format("2006-01-02T15:04") }
	id := b.create(url.Values{"title": {"x"}, "send_at": {at(second)}, "then": {"draft"}, "key": {"k"}})
	_, page := b.get("/ui/campaigns/" + id + "/edit")
	form := formOf(t, page)
	form.Set("timezone", "Europe/Oslo")
	form.Set("send_at", at(second.In(zone)))
	form.Set("title", "y")
	form.Set("then", "draft")
	b.post("/ui/campaigns/"+id, form)
	c, err := w.store.Get(t.Context(), "shop", id)
	if must(t, err); !c.SendAt.Equal(second) || c.Spec.Content.Title != "y" {
		t.Errorf("saved without a change of its time, %s is sent at %s, was %s", c.Spec.Content.Title, c.SendAt, second)
	}
}

func TestACloneIsADraftWithoutTimesAndMadeOnce(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	at := time.Now().Add(time.Hour).UTC()
	id := b.create(url.Values{"name": {"Spring"}, "title": {"x"}, "channel": {"webhook"}, "rate": {"5/s"}, "send_at": {at.Format("2006-01-02T15:04")}, "then": {"start"}, "key": {"k"}})
	key := url.Values{"key": {"once"}}
	_, page := b.post("/ui/campaigns/"+id+"/clone", key)
	form := formOf(t, page)
	if form.Get("name") != "Copy of Spring" || form.Get("rate") != "5/s" || form.Get("title") != "x" || form.Get("send_at") != "" {
		t.Errorf("the copy's form: %v", form)
	}
	b.post("/ui/campaigns/"+id+"/clone", key)
	list, err := w.store.List(t.Context(), "shop", 10, 0)
	if err != nil || len(list) != 2 || list[0].State != campaign.Draft {
		t.Fatalf("%d campaigns, %v", len(list), err)
	}
	_, page = b.post("/ui/campaigns/"+id+"/clone", url.Values{"key": {"in German"}}, "Accept-Language", "de")
	if name := formOf(t, page).Get("name"); name != "Kopie von Spring" {
		t.Errorf("in German the copy is called %q", name)
	}
}

func TestConflictingFormKeepsItsValues(t *testing.T) {
	b := newWorld(t).signedIn()
	b.create(url.Values{"title": {"x"}, "key": {"k"}})
	status, page := b.post("/ui/campaigns", url.Values{"title": {"y"}, "key": {"k"}})
	wants(t, page, "was saved before", `value="y"`)
	if form := formOf(t, page); status != http.StatusConflict || form.Get("key") == "k" || form.Get("key") == "" {
		t.Errorf("answered %d with the key %q", status, form.Get("key"))
	}
}

func TestAnotherAppsIDsSayNothing(t *testing.T) {
	w := newWorld(t)
	ours := w.signedIn()
	id := ours.create(url.Values{"title": {"Ours"}, "key": {"k"}})
	w.key = w.newKey("other", access.Admin)
	b := w.signedIn()
	for _, path := range []string{"/ui/campaigns/preview", "/ui/campaigns/" + id, "/ui/campaigns/" + id + "/test"} {
		if status, page := b.post(path, url.Values{"id": {id}, "title": {"x"}, "to": {"ada"}}); status != http.StatusNotFound || strings.Contains(page, "Ours") {
			t.Errorf("%s is answered %d:\n%s", path, status, page)
		}
	}
}
