package campaign

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/push"
)

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var bad *notification.FieldError
	if !errors.As(err, &bad) {
		t.Errorf("%s: got error %v, want one that names the field", field, err)
	} else if bad.Field != field {
		t.Errorf("error names %s, want %s: %v", bad.Field, field, err)
	}
}

func TestVariablesAreFilledIn(t *testing.T) {
	ada := Person{Recipient: "ada", Attributes: audience.Attributes{
		"name": audience.Text("Ada"), "age": audience.Number(36), "vip": audience.Bool(true), "html": audience.Text("<b>&"), "md": audience.Text("a_b."),
	}}
	for _, c := range []struct{ text, want string }{
		{"Hi {{name|friend}}!", "Hi Ada!"},
		{"Hi {{ name }}!", "Hi Ada!"},
		{"Hi {{nick|friend}}!", "Hi friend!"},
		{"Hi {{nick}}!", "Hi !"},
		{"{{age}} {{vip}} {{recipient}}", "36 true ada"},
		{"no variables", "no variables"},
		{"{{name}}{{name}}", "AdaAda"},
		{"{{name", "{{name"},
		{"}} {{name}}", "}} Ada"},
	} {
		if got := fill(c.text, ada, nil); got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
	s := Spec{Content: Content{Content: push.Content{Title: "<i>{{html}}</i>", Telegram: push.TelegramContent{ParseMode: "HTML"}}}}
	if got := s.Render(ada, push.Telegram).Title; got != "<i>&lt;b&gt;&amp;</i>" {
		t.Errorf("attribute in HTML: %s", got)
	}
	if got := s.Render(ada, push.WebPush).Title; got != "<i><b>&</i>" {
		t.Errorf("attribute in plain text: %s", got)
	}
	s.Content.Title, s.Content.Telegram.ParseMode = "*{{md}}*", "MarkdownV2"
	if got := s.Render(ada, push.Telegram).Title; got != `*a\_b\.*` {
		t.Errorf("attribute in MarkdownV2: %s", got)
	}
}

func TestNamesOfVariablesAreThoseOfAttributes(t *testing.T) {
	for name, ok := range map[string]bool{"": false, "A.z-09_": true, "a b": false, "é": false, strings.Repeat("n", 128): true, strings.Repeat("n", 129): false} {
		if variableName(name) != ok {
			t.Errorf("%q: %t, want %t", name, !ok, ok)
		}
	}
}

func TestTheLanguageOfTheRecipientIsUsed(t *testing.T) {
	s := Spec{Content: Content{
		Content: push.Content{Title: "Hello", Body: "World", URL: "https://example.org/en"},
		Locales: map[string]Variant{
			"fr":    {Title: "Bonjour", URL: "https://example.org/fr"},
			"fr-CA": {Title: "Allô"},
		},
	}}
	for locale, want := range map[string]string{
		"": "Hello", "en": "Hello", "fr": "Bonjour", "fr-FR": "Bonjour", "fr_CA": "Allô", "FR-ca": "Allô", "fr-CA-x-old": "Allô", "de-CH": "Hello",
	} {
		got := s.Render(Person{Locale: locale}, push.WebPush)
		if got.Title != want || got.Body != "World" {
			t.Errorf("locale %q: %s %s, want %s World", locale, got.Title, got.Body, want)
		}
	}
}

func TestTheUTMSuffixIsAddedToURLs(t *testing.T) {
	for _, c := range []struct{ link, utm, want string }{
		{"https://e.org/a", "utm_source=push", "https://e.org/a?utm_source=push"},
		{"https://e.org/a?b=c#top", "utm_source=push&utm_medium=web", "https://e.org/a?b=c&utm_source=push&utm_medium=web#top"},
		{"https://e.org/?utm_source=mine", "utm_source=push&utm_medium=web", "https://e.org/?utm_source=mine&utm_medium=web"},
		{"", "utm_source=push", ""},
		{"https://e.org/a", "", "https://e.org/a"},
	} {
		if got := withUTM(c.link, c.utm); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.link, c.utm, got, c.want)
		}
	}
}

func TestBadSpecsNameTheirField(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good := func() Spec { return Spec{Content: Content{Content: push.Content{Title: "Hi"}}} }
	if s := good(); s.Check(now, time.Time{}) != nil {
		t.Fatal(s.Check(now, time.Time{}))
	}
	for field, spoil := range map[string]func(*Spec){
		"content.title":                   func(s *Spec) { s.Content.Title = "" },
		"content.body":                    func(s *Spec) { s.Content.Body = "Hi {{name" },
		"content.url":                     func(s *Spec) { s.Content.URL = "javascript:alert(1)" },
		"content.locales":                 func(s *Spec) { s.Content.Locales = map[string]Variant{"not a tag": {}} },
		"content.locales.fr.title":        func(s *Spec) { s.Content.Locales = map[string]Variant{"fr": {Title: "{{a b}}"}} },
		"content.locales.fr.url":          func(s *Spec) { s.Content.Locales = map[string]Variant{"fr": {URL: "https://{{host}}/"}} },
		"content.apns.badge":              func(s *Spec) { n := -1; s.Content.APNs.Badge = &n },
		"content.apns.interruption_level": func(s *Spec) { s.Content.APNs.InterruptionLevel = "loud" },
		"content.telegram.parse_mode":     func(s *Spec) { s.Content.Telegram.ParseMode = "markdown" },
		"content.telegram.video":          func(s *Spec) { s.Content.Telegram.Photo, s.Content.Telegram.Video = "a", "b" },
		"content.telegram.document":       func(s *Spec) { s.Content.Telegram.Document = "{{" },
		"content.telegram.buttons[0]":     func(s *Spec) { s.Content.Telegram.Buttons = [][]push.TelegramLink{{}} },
		"content.telegram.buttons[1][0].text": func(s *Spec) {
			s.Content.Telegram.Buttons = [][]push.TelegramLink{{{Text: "a", URL: "https://x.example"}}, {{URL: "https://x.example"}}}
		},
		"content.telegram.buttons[0][0].url": func(s *Spec) {
			s.Content.Telegram.Buttons = [][]push.TelegramLink{{{Text: "a", URL: "javascript:alert(1)"}}}
		},
		"content":          func(s *Spec) { s.Content.Body = strings.Repeat("x", MaxContentBytes) },
		"name":             func(s *Spec) { s.Name = strings.Repeat("x", 201) },
		"spread":           func(s *Spec) { s.Spread = Duration(8 * 24 * time.Hour) },
		"ttl":              func(s *Spec) { s.TTL = Duration(29 * 24 * time.Hour) },
		"expires_at":       func(s *Spec) { s.Expires = now.Add(-time.Hour) },
		"priority":         func(s *Spec) { s.Priority = "urgent" },
		"collapse_key":     func(s *Spec) { s.Collapse = "a b" },
		"utm":              func(s *Spec) { s.UTM = "?utm_source=x" },
		"quiet_hours.from": func(s *Spec) { s.Quiet = &QuietHours{From: "x", To: "08:00"} },
	} {
		s := good()
		spoil(&s)
		wantField(t, s.Check(now, time.Time{}), field)
	}
	s := good()
	wantField(t, s.Check(now, now.Add(367*24*time.Hour)), "send_at")
}

func TestButtonsAreForEachPerson(t *testing.T) {
	s := Spec{UTM: "utm_source=x", Content: Content{Content: push.Content{Title: "{{name}}", Body: "{{name}}", Telegram: push.TelegramContent{
		ParseMode: "Markdown", Buttons: [][]push.TelegramLink{{{Text: "For {{name}}", URL: "https://x.example/{{name}}"}, {Text: "Bot", URL: "tg://resolve?domain=b"}}},
	}}}}
	c := s.Render(Person{Attributes: audience.Attributes{"name": audience.Text("a_b c")}}, push.Telegram)
	want := []push.TelegramLink{{Text: "For a_b c", URL: "https://x.example/a_b+c?utm_source=x"}, {Text: "Bot", URL: "tg://resolve?domain=b"}}
	if !slices.Equal(c.Telegram.Buttons[0], want) {
		t.Errorf("%+v", c.Telegram.Buttons)
	}
	if c.Title != `a*\_*b c` || c.Body != `a\_b c` {
		t.Errorf("%q, %q", c.Title, c.Body)
	}
	if s.Content.Telegram.Buttons[0][0].Text != "For {{name}}" {
		t.Error("the campaign's own text has changed")
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://example.org": true, "http://example.org/{{name}}": true, "/news": true, "/": true,
		"https://[::1": false, "%zz": false, "//example.org": false, "news": false, "ftp://example.org/": false, "https:///x": false, "https://example.org{{name}}": false,
	} {
		if err := checkURL(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLanguagesAreTags(t *testing.T) {
	for tag, ok := range map[string]bool{
		"fr": true, "zh-Hant-TW": true, "de-12345678": true, "x-" + strings.Repeat("a-", 16) + "a": true,
		"f": false, "": false, "de-123456789": false, "fr--CA": false, "fr-": false, "fr_CA": false, "x-" + strings.Repeat("a-", 17): false,
	} {
		if validTag(tag) != ok {
			t.Errorf("%q: %t", tag, !ok)
		}
	}
}

func TestRatesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{"25/s": "25/s", "100/m": "1.67/s", "30/m": "30/m", "10/h": "10/h", "0.5/s": "30/m", "1000000/s": "1000000/s"} {
		r, err := ParseRate(text)
		if err != nil || r.String() != want {
			t.Errorf("%s: %s (%v), want %s", text, r, err, want)
		}
	}
	for _, text := range []string{"", "25", "25/d", "-1/s", "0/s", "x/s", "NaN/s", "1e9/s", "1000001/s"} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("%q was taken as %s", text, r)
		}
	}
}

func TestDeliveryIDsAreStableUUIDs(t *testing.T) {
	id := DeliveryID("01J", "e1")
	if id != DeliveryID("01J", "e1") || id == DeliveryID("01J", "e2") || id == DeliveryID("01Je", "1") {
		t.Error("delivery ids do not follow campaign and endpoint")
	}
	if len(id) != 36 || id[14] != '5' || !strings.ContainsRune("89ab", rune(id[19])) {
		t.Errorf("%s is not a UUID of version 5", id)
	}
}
