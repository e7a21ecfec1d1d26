package admin_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/sending/push"
)

// hostile would break out of text, of attributes in either quotes, of a script and of a comment.
const hostile = `"'--></script></textarea></title><hostile onload=alert(1)>" hx-get="/hostile" onclick="alert(1)" x='`

// checkHarmless parses a page as a browser does and fails on any element or attribute that hostile content would have added.
func checkHarmless(t *testing.T, where, page string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "hostile" {
			t.Errorf("%s: content has become an element", where)
		}
		for _, a := range n.Attr {
			switch value := strings.ToLower(strings.TrimSpace(a.Val)); {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc":
				t.Errorf("%s: <%s %s=%q>", where, n.Data, a.Key, a.Val)
			case strings.HasPrefix(a.Key, "hx-") && strings.Contains(value, "hostile"):
				t.Errorf("%s: <%s %s=%q>", where, n.Data, a.Key, a.Val)
			case (a.Key == "href" || a.Key == "src" || a.Key == "action") && strings.HasPrefix(value, "javascript:"):
				t.Errorf("%s: <%s %s=%q>", where, n.Data, a.Key, a.Val)
			}
		}
	}
}

func TestHostileContentStaysTextOnEveryPage(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	address, err := audience.NormalAddress(push.Webhook, json.RawMessage(`{"url":"https://example.org/hostile"}`))
	must(t, err)
	done, err := w.store.Register(t.Context(), "shop", []audience.Registration{{Trusted: true, Endpoint: audience.Endpoint{
		App: "shop", Channel: push.Webhook, Address: address, Tags: []string{"news", hostile}, Status: audience.Active,
		Attributes: audience.Attributes{"name": audience.Text(hostile)},
	}}})
	must(t, err)
	endpoint := done[0].Endpoint
	_, err = w.store.UpdateEndpoint(t.Context(), "shop", endpoint.ID, true, func(e *audience.Endpoint) error {
		e.Status, e.DisabledReason, e.Recipient = audience.Disabled, hostile, hostile
		return nil
	})
	must(t, err)
	form := url.Values{
		"name": {hostile}, "title": {hostile}, "body": {hostile + ` <img src=x onerror=alert(1)>`}, "channel": {"webhook"}, "tags_any": {"news"},
		"url": {"https://example.org/?" + hostile}, "icon": {"https://example.org/" + hostile}, "image": {"https://example.org/" + hostile}, "track": {"on"},
		"key": {"k1"}, "then": {"draft"}, "category": {hostile}, "button-0-text": {hostile}, "button-0-url": {"https://example.org/?" + hostile}, "media": {"video"}, "media_url": {hostile},
		"action-0-title": {hostile}, "action-0-url": {"https://example.org/?" + hostile}, "action-0-action": {hostile}, "locale-0-tag": {"fr"}, "locale-0-title": {hostile}, "locale-0-button-0-text": {hostile}, "locale-0-button-0-url": {"https://example.org/?" + hostile}, "variable-place": {hostile},
	}
	_, _, err = w.shelf.Set(t.Context(), "shop", "hostile", template.Content{Content: push.Content{Title: hostile, Body: "{{place|" + hostile + "}}", Category: hostile}}, template.Match{})
	must(t, err)
	form.Add("channel", "telegram")
	form.Set("b_template", "hostile")
	id := b.create(form)
	shown := 0
	look := func(where, page string) {
		t.Helper()
		checkHarmless(t, where, page)
		if strings.Contains(page, "&lt;hostile") {
			shown++
		}
	}
	for _, path := range []string{
		"/", "/ui/campaigns", "/ui/campaigns/new", "/ui/campaigns/" + id, "/ui/campaigns/" + id + "/progress", "/ui/audience", "/ui/campaigns/" + id + "/edit",
		"/ui/audience/" + endpoint.ID.String(), "/ui/audience/" + url.PathEscape(hostile), "/ui/audience?who=" + url.QueryEscape(hostile), "/ui/audience?cursor=" + url.QueryEscape(hostile),
		"/ui/audience?tag=" + url.QueryEscape(hostile) + "&having=" + url.QueryEscape(hostile) + "&status=" + url.QueryEscape(hostile) + "&channel=" + url.QueryEscape(hostile),
		"/ui/campaigns/new?endpoint=" + url.QueryEscape(hostile), "/ui/campaigns/new?recipient=" + url.QueryEscape(hostile),
		"/ui/campaigns/" + id + "/deliveries?outcome=failed", "/ui/campaigns/" + id + "/deliveries?outcome=" + url.QueryEscape(hostile),
		"/ui/campaigns?cursor=" + url.QueryEscape(hostile), "/ui/campaigns/" + url.PathEscape(hostile), "/ui/" + url.PathEscape(hostile),
	} {
		_, page := b.get(path)
		look(path, page)
	}
	for path, posted := range map[string]url.Values{
		"/ui/campaigns/preview":                 form,
		"/ui/campaigns":                         {"title": {"x"}, "channel": {hostile}, "key": {"k2"}, "priority": {hostile}, "media": {hostile}, "locale-0-tag": {hostile}, hostile: {hostile}, "then": {hostile}},
		"/ui/campaigns/" + id:                   {"title": {"x"}, "template": {"hostile"}, "then": {"template"}, "variable-place": {hostile}, "variable-" + hostile: {hostile}, "used": {hostile}},
		"/ui/audience/count":                    {"where": {hostile}, "tags_any": {hostile}},
		"/ui/campaigns/" + id + "/" + "hostile": {},
		"/ui/campaigns/" + id + "/test":         {"to": {hostile}},
		"/ui/campaigns/" + id + "/" + "start":   {},
		"/ui/sign-in":                           {"key": {hostile}},
	} {
		for _, by := range [][]string{nil, {"HX-Request", "true"}} {
			_, page := b.post(path, posted, by...)
			look("POST "+path, page)
		}
		if path != "/ui/campaigns/preview" {
			continue
		}
		for _, field := range []string{"url", "icon", "image"} {
			bad := url.Values{"title": {"x"}, "channel": {"webhook"}, field: {"javascript:alert(1)"}}
			status, page := b.post(path, bad)
			if look("POST "+field, page); status != http.StatusOK {
				t.Errorf("%s: %d", field, status)
			}
		}
	}
	if shown < 6 {
		t.Errorf("the content is on %d pages: the test looks past it", shown)
	}
	_, page := b.get("/ui/campaigns/" + id)
	look("after the start", page)
}
