package template

import (
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

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
	s := Content{Content: push.Content{Title: "<i>{{html}}</i>", Telegram: push.TelegramContent{ParseMode: "HTML"}}}
	if got := s.Render(ada, push.Telegram, "").Title; got != "<i>&lt;b&gt;&amp;</i>" {
		t.Errorf("attribute in HTML: %s", got)
	}
	if got := s.Render(ada, push.WebPush, "").Title; got != "<i><b>&</i>" {
		t.Errorf("attribute in plain text: %s", got)
	}
	s.Title, s.Telegram.ParseMode = "*{{md}}*", "MarkdownV2"
	if got := s.Render(ada, push.Telegram, "").Title; got != `*a\_b\.*` {
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
	s := Content{
		Content: push.Content{Title: "Hello", Body: "World", URL: "https://example.org/en"},
		Locales: map[string]Variant{
			"fr":    {Title: "Bonjour", URL: "https://example.org/fr"},
			"fr-CA": {Title: "Allô"},
		},
	}
	for locale, want := range map[string]string{
		"": "Hello", "en": "Hello", "fr": "Bonjour", "fr-FR": "Bonjour", "fr_CA": "Allô", "FR-ca": "Allô", "fr-CA-x-old": "Allô", "de-CH": "Hello",
	} {
		got := s.Render(Person{Locale: locale}, push.WebPush, "")
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
		{"https://münchen.example/straße?q=ä", "utm_source=x", "https://münchen.example/straße?q=ä&utm_source=x"},
		{"https://пример.рф", "utm_source=x", "https://пример.рф?utm_source=x"},
		{"https://e.org/a%2Fb%7e?z=%7E&a=1;b=2&z=+", "utm_source=x", "https://e.org/a%2Fb%7e?z=%7E&a=1;b=2&z=+&utm_source=x"},
		{"https://e.org/a?#frag?x=1", "&utm_source=x", "https://e.org/a?utm_source=x#frag?x=1"},
		{"https://e.org/a?b&#", "utm_source=x", "https://e.org/a?b&utm_source=x#"},
		{"https://e.org/?a=1;utm%5Fsource=mine", "utm_source=x", "https://e.org/?a=1;utm%5Fsource=mine"},
		{"/news", "utm_source=x", "/news?utm_source=x"},
		{"https://E.org:443/%zz?q=100%", "utm_source=x", "https://E.org:443/%zz?q=100%&utm_source=x"},
		{"tg://resolve?domain=b", "utm_source=x", "tg://resolve?domain=b"},
	} {
		if got := withUTM(c.link, c.utm); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.link, c.utm, got, c.want)
		}
	}
}

func TestVariablesInTheUTMSuffixAreFilledIn(t *testing.T) {
	c := Content{Content: push.Content{URL: "https://пример.рф/{{v}}#{{v}}"}}
	c.Telegram.Buttons = [][]push.TelegramLink{{{Text: "Go", URL: "https://e.org/"}}}
	p := Person{Attributes: audience.Attributes{"v": audience.Text("a b&c#d")}}
	got := c.Render(p, push.Telegram, "utm_campaign={{v}}&utm_term={{none|all}}")
	const filled = "utm_campaign=a%20b%26c%23d&utm_term=all"
	if want := "https://пример.рф/a%20b%26c%23d?" + filled + "#a%20b%26c%23d"; got.URL != want {
		t.Errorf("%s, want %s", got.URL, want)
	}
	if want := "https://e.org/?" + filled; got.Telegram.Buttons[0][0].URL != want {
		t.Errorf("button %s, want %s", got.Telegram.Buttons[0][0].URL, want)
	}
}

func TestVariablesInURLsMeanTheSameInPathQueryAndFragment(t *testing.T) {
	for value, want := range map[string]string{
		"New York": "New%20York", "a+b": "a%2Bb", "a/b?c#d&e=f": "a%2Fb%3Fc%23d%26e%3Df", "100%": "100%25", "Zürich": "Z%C3%BCrich", "ride-7_x.~": "ride-7_x.~",
	} {
		p := Person{Attributes: audience.Attributes{"v": audience.Text(value)}}
		of := func(head string) string { return head + "/{{v}}/x?q={{v}}&r={{none|no body/&}}#{{v}}" }
		filled := func(head string) string { return head + "/" + want + "/x?q=" + want + "&r=no%20body/&#" + want }
		c := Content{Content: push.Content{
			Title: "{{v}}", URL: of("https://u.example"), Icon: of("https://i.example"), Image: of("https://m.example"),
			Telegram: push.TelegramContent{Photo: of("https://p.example"), Buttons: [][]push.TelegramLink{{{Text: "{{v}}", URL: of("https://b.example")}}}},
			WebPush:  push.WebPushContent{Actions: []push.Action{{Title: "{{v}}", URL: of("https://a.example")}}},
		}}
		got := c.Render(p, push.WebPush, "")
		for head, text := range map[string]string{
			"https://u.example": got.URL, "https://i.example": got.Icon, "https://m.example": got.Image, "https://p.example": got.Telegram.Photo,
			"https://b.example": got.Telegram.Buttons[0][0].URL, "https://a.example": got.WebPush.Actions[0].URL,
		} {
			if text != filled(head) {
				t.Errorf("%q: %s, want %s", value, text, filled(head))
			}
		}
		if got.Title != value {
			t.Errorf("title %q, want %q", got.Title, value)
		}
	}
}

func TestButtonsAreForEachPerson(t *testing.T) {
	s := Content{Content: push.Content{Title: "{{name}}", Body: "{{name}}", Telegram: push.TelegramContent{
		ParseMode: "Markdown", Buttons: [][]push.TelegramLink{{{Text: "For {{name}}", URL: "https://x.example/{{name}}"}, {Text: "Bot", URL: "tg://resolve?domain=b"}}},
	}}}
	c := s.Render(Person{Attributes: audience.Attributes{"name": audience.Text("a_b c")}}, push.Telegram, "utm_source=x")
	want := []push.TelegramLink{{Text: "For a_b c", URL: "https://x.example/a_b%20c?utm_source=x"}, {Text: "Bot", URL: "tg://resolve?domain=b"}}
	if !slices.Equal(c.Telegram.Buttons[0], want) {
		t.Errorf("%+v", c.Telegram.Buttons)
	}
	if c.Title != `a*\_*b c` || c.Body != `a\_b c` {
		t.Errorf("%q, %q", c.Title, c.Body)
	}
	if s.Telegram.Buttons[0][0].Text != "For {{name}}" {
		t.Error("the content's own text has changed")
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

func TestMediaThatTelegramRefusesNameTheirField(t *testing.T) {
	photos := func(n int) (list []push.TelegramMedia) {
		for range n {
			list = append(list, push.TelegramMedia{Type: "photo", Media: "https://x.example/{{picture}}"})
		}
		return list
	}
	row := [][]push.TelegramLink{{{Text: "Open", URL: "https://x.example/"}}}
	one := Content{Content: push.Content{Title: "T", Telegram: push.TelegramContent{Album: photos(1)}}}
	wantField(t, one.Check("c"), "c.telegram.album")
	for field, tg := range map[string]push.TelegramContent{
		"c.telegram.audio":          {Photo: "f", Audio: "f"},
		"c.telegram.sticker":        {Sticker: strings.Repeat("x", 2049)},
		"c.telegram.album":          {Album: photos(11)},
		"c.telegram.album[1].type":  {Album: []push.TelegramMedia{{Type: "photo", Media: "f"}, {Type: "audio", Media: "f"}}},
		"c.telegram.album[0].type":  {Album: []push.TelegramMedia{{Type: "animation", Media: "f"}, {Type: "photo", Media: "f"}}},
		"c.telegram.album[1].media": {Album: []push.TelegramMedia{{Type: "photo", Media: "f"}, {Type: "photo"}}},
		"c.telegram.buttons":        {Album: photos(2), Buttons: row},
	} {
		c := Content{Content: push.Content{Title: "T", Telegram: tg}}
		wantField(t, c.Check("c"), field)
	}
	c := Content{Content: push.Content{Title: "T", Telegram: push.TelegramContent{Album: photos(10)}}, Locales: map[string]Variant{"fr": {Telegram: &VariantTelegram{Buttons: row}}}}
	wantField(t, c.Check("c"), "c.locales.fr.telegram.buttons")
	c.Locales = nil
	if err := c.Check("c"); err != nil {
		t.Error(err)
	}
	got := c.Render(Person{Attributes: audience.Attributes{"picture": audience.Text("a b")}}, push.Telegram, "")
	if media := got.Telegram.Album[9].Media; media != "https://x.example/a%20b" || c.Telegram.Album[9].Media == media {
		t.Errorf("rendered %q, and the content has %q", media, c.Telegram.Album[9].Media)
	}
}
