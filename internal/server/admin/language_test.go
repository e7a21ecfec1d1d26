package admin_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
	"godwit.dev/godwit/internal/server/watch"
)

// in gets a page with a browser that accepts languages.
func (b *browser) in(accepted, path string, headers ...string) (int, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.srv.URL+path, nil)
	must(b.T, err)
	req.Header.Set("Accept-Language", accepted)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, body := b.do(req)
	return resp.StatusCode, body
}

func TestPagesSpeakTheLanguageThatTheBrowserAccepts(t *testing.T) {
	w := newWorld(t)
	_, page := w.browser().in("de-AT,de;q=0.9", "/")
	wants(t, page, `<html lang="de" dir="ltr">`, "<h1>Anmelden</h1>", ">Deutsch</span>")
	b := w.signedIn()
	for accepted, want := range map[string]string{"de": "Übersicht", "es": "Resumen", "fr": "Aperçu général", "pt-BR": "Visão geral", "hi": "अवलोकन", "ja": "Overview"} {
		_, page := b.in(accepted, "/ui/")
		wants(t, page, "<h1>"+want+"</h1>", "<title>"+want+" · Godwit</title>")
	}
	status, page := b.in("de", "/ui/campaigns/none")
	wants(t, page, "Diese Kampagne gibt es nicht.")
	if status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
	_, page = b.in("fr", "/ui/nowhere")
	wants(t, page, "Cette page n’existe pas")
	_, page = b.in("es", "/ui/find?q=registro+de")
	wants(t, page, `<a href="/ui/audit">Registro de auditoría</a>`)
	_, page = b.in("es", "/ui/find?q=audit+log")
	wants(t, page, `<a href="/ui/audit">Registro de auditoría</a>`)
}

func TestTheChosenLanguageStays(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	choose := func(language, from string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.srv.URL+"/ui/language", strings.NewReader(url.Values{"language": {language}}.Encode()))
		must(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Referer", from)
		resp, _ := b.do(req)
		return resp
	}
	resp := choose("hi", w.srv.URL+"/ui/find?q=tide")
	if to := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || to != "/ui/find?q=tide" {
		t.Errorf("%d to %s", resp.StatusCode, to)
	}
	if c := resp.Cookies(); len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteLaxMode || c[0].Path != "/" || c[0].MaxAge < 300*24*3600 {
		t.Errorf("the cookie is %v", c)
	}
	_, page := b.in("de", "/")
	wants(t, page, `<html lang="hi"`, "<h1>साइन इन</h1>", `value="hi" lang="hi" aria-current="true"`)

	for _, from := range []string{"", "https://evil.example/ui/", "javascript:alert(1)", w.srv.URL + "//evil.example/", w.srv.URL + "/\\evil.example/", "https://evil.example" + strings.TrimPrefix(w.srv.URL, "http:")} {
		if to := choose("en", from).Header.Get("Location"); to != "/" {
			t.Errorf("from %q it leads to %q", from, to)
		}
	}
	for _, none := range []string{"", "xx", "de\r\nSet-Cookie: a=b", "../de"} {
		if resp := choose(none, ""); resp.StatusCode != http.StatusBadRequest || len(resp.Cookies()) > 0 {
			t.Errorf("language %q: %d, cookies %v", none, resp.StatusCode, resp.Cookies())
		}
	}
}

func TestMistakesInFormsAreSaidInTheReadersLanguage(t *testing.T) {
	b := newWorld(t).signedIn()
	_, page := b.post("/ui/campaigns", url.Values{"title": {""}, "rate": {"fast"}, "send_at": {"soon"}, "button-0-url": {"javascript:x"}, "key": {"k"}, "then": {"ask"}}, "Accept-Language", "de")
	wants(t, page, "So nicht gespeichert.", "Schreiben Sie einen Titel oder einen Text: Eine leere Nachricht sagt nichts.", "&#34;soon&#34; ist kein Datum mit Uhrzeit.", "<title>Nicht gespeichert: Neue Kampagne")
	_, page = b.post("/ui/campaigns", url.Values{"title": {"T"}, "body": {strings.Repeat("b", 40_000)}, "key": {"k"}, "then": {"draft"}}, "Accept-Language", "de")
	wants(t, page, "Hat 40.023 Bytes; erlaubt sind höchstens 32.768.") // a rule of the API
	_, page = b.post("/ui/send", url.Values{"to": {"a b", "two words"}, "key": {"k"}}, "Accept-Language", "fr", "HX-Request", "true")
	wants(t, page, "Écrivez un titre ou un texte")
	_, page = b.post("/ui/audience/count", url.Values{}, "Accept-Language", "hi", "HX-Request", "true")
	wants(t, page, "सक्रिय पता मेल खाता है।")
}

// A name stays as it was written, also if it reads like a text of the pages.
func TestWhatPeopleWroteIsNotTranslatedAndStaysText(t *testing.T) {
	w := newWorld(t)
	e := w.register(push.FCM, `{"token":"t"}`, audience.Endpoint{Recipient: "Overview", Tags: []string{"Save"}})
	b := w.signedIn()
	id := b.create(url.Values{"title": {"Campaigns"}, "name": {"Delete"}, "key": {"k"}})
	for _, accepted := range []string{"de", "hi", "en"} {
		_, page := b.in(accepted, "/ui/campaigns/"+id)
		wants(t, page, "<h1>Delete</h1>", `<div class="title">Campaigns</div>`)
		_, page = b.in(accepted, "/ui/audience/"+e.ID.String())
		wants(t, page, `<a href="/ui/recipients/Overview">Overview</a>`, "<code>Save</code>")
	}
	b.post("/ui/audience/"+e.ID.String()+"/pause", nil)
	_, page := b.in("de", "/ui/audience/"+e.ID.String())
	wants(t, page, "auf der Webseite angehalten") // the reason that the page itself stored
	_, page = b.in("de", "/ui/campaigns?q="+url.QueryEscape(hostile))
	checkHarmless(t, "de", page)
}

func TestStreamsOfAPageSpeakItsLanguage(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+"/ui/overview/events", nil)
	must(t, err)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Accept-Language", "de")
	resp, err := b.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	var said strings.Builder
	part := make([]byte, 4096)
	for !strings.Contains(said.String(), "Nichts braucht Aufmerksamkeit.") {
		n, err := resp.Body.Read(part)
		said.Write(part[:n])
		if err != nil {
			t.Fatalf("%v; it said\n%s", err, said.String())
		}
	}
}

func TestWhatNeedsAttentionIsSaidInTheReadersLanguage(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	w := watch.Alone(watch.New(), "a")
	w.Advise = func(context.Context, string) []watch.Advice {
		s := watch.State{
			Full: true, Free: "10MB", Least: "256MB", Turned: 1, Failed: 1_234,
			Hooks:   []watch.Trouble{{Name: "orders", State: "failing", Error: hostile, Since: at}},
			Missing: []watch.Lost{{Name: "b", Why: "it fell silent; whether it lives shows within 20 s", Silent: time.Hour, Ended: true}},
		}
		return s.Advise(at)
	}
	b := newWorld(t, func(c *admin.Config) { c.Watch = w }).as(3)
	_, page := b.in("de", "/ui/")
	checkHarmless(t, "/ui/", page)
	wants(t, page, "Der Hook orders ist gestört, seit 01.05.2026, 12:00 UTC: ", "noch 10MB frei", "1 Verbindung wurde in der letzten Stunde", "1.234 Aufrufe der API",
		"Der Knoten b wurde seit 60 Minuten nicht gehört: er ist verstummt", "von der Liste: godwit cluster forget b")
	_, page = b.in("en", "/ui/")
	wants(t, page, "The hook orders is failing since 1 May 2026, 12:00 UTC: ", "1 connection was refused", "1,234 calls to the API", "godwit cluster forget b")
}
