package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// register registers an endpoint for app shop.
func (w *world) register(ch push.Channel, address string, e audience.Endpoint) audience.Endpoint {
	w.Helper()
	e.Channel, e.Address = ch, json.RawMessage(address)
	return w.registerAll(e)[0]
}

func (w *world) registerAll(list ...audience.Endpoint) []audience.Endpoint {
	w.Helper()
	regs := make([]audience.Registration, len(list))
	for i, e := range list {
		must(w.T, e.Check())
		regs[i] = audience.Registration{Trusted: true, Endpoint: e}
	}
	done, err := w.store.Register(w.Context(), "shop", regs)
	must(w.T, err)
	for i := range done {
		must(w.T, done[i].Err)
		list[i] = done[i].Endpoint
	}
	return list
}

func device(token string) audience.Endpoint {
	return audience.Endpoint{Channel: push.FCM, Address: json.RawMessage(fmt.Sprintf(`{"token":%q}`, token))}
}

func (w *world) token(token string, e audience.Endpoint) audience.Endpoint {
	return w.register(push.FCM, fmt.Sprintf(`{"token":%q}`, token), e)
}

func TestEndpointsAreFoundBySomethingOfThem(t *testing.T) {
	w := newWorld(t)
	anna := w.token("secret-1", audience.Endpoint{Recipient: "anna", Tags: []string{"news"}})
	oslo := w.token("secret-2", audience.Endpoint{Attributes: audience.Attributes{"city": audience.Text("Oslo")}})
	bot := w.register(push.Telegram, `{"chat_id":7}`, audience.Endpoint{Recipient: "bo"})
	must(t, w.store.DisableEndpoint(t.Context(), bot.Number, "it left"))
	b := w.signedIn()
	all := []audience.Endpoint{anna, oslo, bot}
	for query, want := range map[string]string{
		"": "110", "status=disabled": "001", "status=active": "110", "who=anna": "100", "who=bo": "001", "who=" + bot.ID.String(): "001", "who=" + oslo.ID.UUID(): "010",
		"tag=news": "100", "tag=news&status=disabled": "000", "having=city+%3D+%22Oslo%22": "010", "channel=telegram": "001", "channel=fcm&who=anna": "100", "who=nobody": "000",
	} {
		if query == "" {
			want = "111"
		}
		status, page := b.get("/ui/audience?" + query)
		got := ""
		for _, e := range all {
			got += map[bool]string{true: "1", false: "0"}[strings.Contains(page, `href="/ui/audience/`+e.ID.String()+`"`)]
		}
		if got != want || status != http.StatusOK || strings.Contains(page, "secret-") {
			t.Errorf("%s finds %s, want %s", query, got, want)
		}
	}
	for query, want := range map[string]string{
		"having=city": "where:", "status=gone": "A status is", "tag=a,b": "tags_all[0]", "channel=pigeon": "is not a channel", "who=a+b": "recipients[0]",
	} {
		if status, page := b.get("/ui/audience?" + query); status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("%s: %d, and the page does not say what is wrong (%s)", query, status, want)
		}
	}
}

func TestAListOfEndpointsLeadsOnToTheLast(t *testing.T) {
	w := newWorld(t)
	const want = 120
	list := make([]audience.Endpoint, want)
	for n := range list {
		list[n] = device(fmt.Sprint("t", n))
		list[n].Tags = []string{"all"}
	}
	w.registerAll(list...)
	b := w.signedIn()
	path, seen, pages := "/ui/audience?tag=all", make(map[string]bool), 0
	for path != "" {
		_, page := b.get(path)
		path = ""
		for _, part := range strings.Split(page, `href="`)[1:] {
			link, _, _ := strings.Cut(part, `"`)
			id, ok := strings.CutPrefix(link, "/ui/audience/")
			if _, err := audience.ParseID(id); ok && err == nil {
				seen[id] = true
			}
			if strings.Contains(link, "cursor=") {
				path = strings.ReplaceAll(link, "&amp;", "&")
			}
		}
		pages++
	}
	if len(seen) != want || pages != 3 {
		t.Errorf("%d are on %d pages, want %d on 3", len(seen), pages, want)
	}
}

func TestAnEndpointIsShownWithoutItsSecrets(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	for leads, e := range map[string]audience.Endpoint{
		"a device, by its token":      w.token("secret-token", audience.Endpoint{}),
		"hooks.example.org":           w.register(push.Webhook, `{"url":"https://hooks.example.org/secret-path?secret-key"}`, audience.Endpoint{}),
		"chat -42":                    w.register(push.Telegram, `{"chat_id":-42}`, audience.Endpoint{}),
		"chat @news":                  w.register(push.Telegram, `{"chat_id":"@news"}`, audience.Endpoint{}),
		"the recipient&#39;s mailbox": w.register(push.Live, `{}`, audience.Endpoint{Recipient: "anna"}),
		"a browser, by push.example.org": w.register(push.WebPush, `{"endpoint":"https://push.example.org/secret-subscription","keys":{
			"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}}`, audience.Endpoint{}),
	} {
		status, page := b.get("/ui/audience/" + e.ID.String())
		if status != http.StatusOK || !strings.Contains(page, leads) {
			t.Errorf("%s: %d:\n%s", leads, status, page)
		}
		for _, secret := range []string{"secret-", "BCVxsr7N", "BTBZMqHH"} {
			if strings.Contains(page, secret) {
				t.Errorf("%s: the page tells a secret", leads)
			}
		}
	}
	for _, path := range []string{"/ui/audience/x", "/ui/audience/" + audience.NewUUID().String(), "/ui/campaigns/new?endpoint=" + audience.NewUUID().String()} {
		if status, _ := b.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestAnEndpointIsPausedWokenAndDeleted(t *testing.T) {
	w := newWorld(t)
	e := w.token("t", audience.Endpoint{Recipient: "anna"})
	b := w.signedIn()
	at := "/ui/audience/" + e.ID.String()
	for _, step := range []struct{ do, says string }{{"/pause", "paused on the web page"}, {"/pause", "paused on the web page"}, {"/wake", ">active<"}, {"/delete", "There are none."}} {
		status, page := b.post(at+step.do, nil)
		if status != http.StatusOK || !strings.Contains(page, step.says) {
			t.Errorf("%s: %d:\n%s", step.do, status, page)
		}
	}
	if status, _ := b.post(at+"/delete", nil); status != http.StatusNotFound {
		t.Errorf("deleted twice: %d", status)
	}
}

func TestSearchResultIsExported(t *testing.T) {
	w := newWorld(t)
	const many = 1200 // more than one read returns
	list := make([]audience.Endpoint, many)
	for n := range list {
		list[n] = device(fmt.Sprint("secret-", n))
	}
	list[7].Tags = []string{"news"}
	w.registerAll(list...)
	b := w.signedIn()
	for query, want := range map[string]struct {
		lines   int
		secrets bool
	}{
		"?format=csv": {many + 1, false}, "?format=ndjson": {many, false}, "?tag=news&format=ndjson": {1, false}, "?tag=none": {0, false},
		"/addresses?format=ndjson": {many, true}, "/addresses?tag=news&format=csv": {2, true},
	} {
		status, file := b.get("/ui/audience/export" + query)
		if n := strings.Count(file, "\n"); status != http.StatusOK || n != want.lines || strings.Contains(file, "secret-") != want.secrets {
			t.Errorf("%s: %d, %d lines, secrets %v", query, status, n, strings.Contains(file, "secret-"))
		}
	}
	if status, _ := b.get("/ui/audience/export?status=gone"); status != http.StatusUnprocessableEntity {
		t.Errorf("a filter that makes no sense: %d", status)
	}
	if status, page := w.browser().get("/ui/audience/export/addresses"); status != http.StatusOK || !strings.Contains(page, "Sign in") {
		t.Errorf("who has not signed in: %d", status)
	}
}

func TestACampaignForOneEndpointReachesThatOneAlone(t *testing.T) {
	w := newWorld(t)
	hook := func(n int, e audience.Endpoint) audience.Endpoint {
		return w.register(push.Webhook, fmt.Sprintf(`{"url":"https://example.org/%d"}`, n), e)
	}
	one := hook(1, audience.Endpoint{Recipient: "anna"})
	hook(2, audience.Endpoint{Recipient: "anna"})
	hook(3, audience.Endpoint{})
	b := w.signedIn()
	_, page := b.get("/ui/audience/" + one.ID.String())
	wants(t, page, `href="/ui/campaigns/new?endpoint=`+one.ID.String()+`"`)
	_, page = b.get("/ui/campaigns/new?endpoint=" + one.ID.String())
	wants(t, page, "\n"+one.ID.String(), `value="webhook" checked`)
	_, page = b.get("/ui/campaigns/new?recipient=anna")
	wants(t, page, "\nanna", `value="webhook" checked`)
	for field, want := range map[string]int{"endpoints=" + one.ID.String(): 1, "recipients=anna": 2} {
		form, _ := url.ParseQuery(field)
		form.Set("title", "For you")
		form.Set("channel", "webhook")
		form.Set("key", field)
		form.Set("then", "start")
		id := b.create(form)
		page := b.eventually("/ui/campaigns/"+id+"/progress", `data-state="completed"`)
		wants(t, page, fmt.Sprintf(`data-outcome="accepted"><b>%d</b>`, want))
	}
}
