package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/campaigns/template"
)

const welcomeTemplate = `{"content":{"language":"en","title":"Hi {{name|friend}}","body":"Your plan is {{plan}}","locales":{"de":{"title":"Hallo {{name|du}}","body":"Ihr Tarif ist {{plan}}"}}}}`

type templateView struct {
	Name      string
	Revision  int64
	Language  string
	Locales   []string
	Variables []template.Variable
	Content   map[string]any
}

func (w *world) setTemplate(name, body, header, value string) answer {
	w.t.Helper()
	r := request{method: "PUT", path: "/v1/templates/" + name, body: body}
	if header != "" {
		r.header = map[string]string{header: value}
	}
	return w.do(r)
}

func TestATemplateIsStoredReadChangedAndDeleted(t *testing.T) {
	w := newWorld(t)
	a := w.setTemplate("welcome", welcomeTemplate, "If-None-Match", "*").want(http.StatusCreated)
	var v templateView
	if a.into(&v); v.Name != "welcome" || v.Revision != 1 || v.Language != "en" || len(v.Locales) != 1 || len(v.Variables) != 2 || !v.Variables[1].Required || v.Variables[0].Required || a.header.Get("ETag") != `"1"` {
		t.Errorf("%+v, tag %s", v, a.header.Get("ETag"))
	}
	w.setTemplate("welcome", welcomeTemplate, "If-None-Match", "*").problem(http.StatusPreconditionFailed, "revision-mismatch", "")
	w.setTemplate("welcome", welcomeTemplate, "If-Match", `"1"`).want(http.StatusOK)
	if p := w.setTemplate("welcome", welcomeTemplate, "If-Match", `"1"`).problem(http.StatusPreconditionFailed, "revision-mismatch", ""); !strings.Contains(p.Detail, "revision 2") {
		t.Errorf("%+v", p)
	}
	w.setTemplate("welcome", welcomeTemplate, "If-Match", "x").problem(http.StatusBadRequest, "bad-input", "If-Match")
	w.setTemplate("zebra", `{"content":{"title":"Z"}}`, "", "").want(http.StatusCreated)
	w.get("/v1/templates/welcome").want(http.StatusOK).into(&v)
	if v.Revision != 2 || v.Content["title"] != "Hi {{name|friend}}" {
		t.Errorf("%+v", v)
	}
	type page struct {
		Items      []templateView
		NextCursor *string `json:"next_cursor"`
	}
	var kept, l page
	w.setTemplate("welcome", `{"content":{"title":"Bye"}}`, "If-Match", `"2"`).want(http.StatusOK)
	w.get("/v1/templates/welcome/revisions").want(http.StatusOK).into(&kept)
	if len(kept.Items) != 3 || kept.Items[0].Revision != 3 || kept.Items[0].Content["title"] != "Bye" || kept.Items[2].Revision != 1 || kept.Items[2].Content["title"] != "Hi {{name|friend}}" || kept.NextCursor != nil {
		t.Errorf("%+v", kept)
	}
	w.get("/v1/templates/none/revisions").problem(http.StatusNotFound, "not-found", "")
	w.get("/v1/templates?limit=1").want(http.StatusOK).into(&l)
	if len(l.Items) != 1 || l.Items[0].Name != "welcome" || l.Items[0].Content != nil || l.NextCursor == nil {
		t.Fatalf("%+v", l)
	}
	w.get("/v1/templates?limit=1&cursor=" + *l.NextCursor).want(http.StatusOK).into(&l)
	if len(l.Items) != 1 || l.Items[0].Name != "zebra" {
		t.Errorf("%+v", l)
	}
	w.do(request{method: "DELETE", path: "/v1/templates/welcome", header: map[string]string{"If-Match": `"1"`}}).problem(http.StatusPreconditionFailed, "revision-mismatch", "")
	w.delete("/v1/templates/welcome").want(http.StatusNoContent)
	w.delete("/v1/templates/welcome").problem(http.StatusNotFound, "not-found", "")
	w.get("/v1/templates/welcome").problem(http.StatusNotFound, "not-found", "")
}

func TestTemplatesAreTheAppsOwnAndOfThoseWhoPublish(t *testing.T) {
	w := newWorld(t)
	w.setTemplate("welcome", welcomeTemplate, "", "").want(http.StatusCreated)
	w.do(request{method: "GET", path: "/v1/templates/welcome", key: w.keys["other"]}).problem(http.StatusNotFound, "not-found", "")
	w.do(request{method: "GET", path: "/v1/templates/welcome", key: w.keys["read"]}).want(http.StatusOK)
	for _, r := range []request{{method: "PUT", path: "/v1/templates/welcome", body: welcomeTemplate}, {method: "DELETE", path: "/v1/templates/welcome"}} {
		r.key = w.keys["read"]
		w.do(r).want(http.StatusForbidden)
		r.key = w.keys["publish"]
		w.do(r)
	}
	w.get("/v1/templates/welcome").problem(http.StatusNotFound, "not-found", "")
}

func TestAPublishNamesATemplate(t *testing.T) {
	w := newWorld(t)
	w.setTemplate("welcome", welcomeTemplate, "", "").want(http.StatusCreated)
	w.post("/v1/notifications", `{"to":"ada","id":"n1","template":"welcome","variables":{"plan":2.50,"name":"Ada"},"locale":"de-CH"}`).want(http.StatusCreated)
	w.mailbox.mu.Lock()
	c := w.mailbox.log[0].content
	w.mailbox.mu.Unlock()
	if c.Title != "Hallo Ada" || c.Body != "Ihr Tarif ist 2.50" {
		t.Errorf("%+v", c)
	}
	for body, field := range map[string]string{
		`{"to":"ada","template":"welcome"}`:                                   "variables.plan",
		`{"to":"ada","template":"none"}`:                                      "template",
		`{"to":"ada","template":"welcome","variables":{"plan":[]}}`:           "variables",
		`{"to":"ada","template":"welcome","variables":"x"}`:                   "variables",
		`{"to":"ada","template":"welcome","title":"x"}`:                       "title",
		`{"to":"ada","variables":{"plan":"x"}}`:                               "variables",
		`{"to":"ada","title":"x","locale":"de"}`:                              "locale",
		`{"to":"ada","template":"welcome","variables":{"plan":1},"locale":1}`: "locale",
	} {
		w.post("/v1/notifications", body).problem(http.StatusBadRequest, "bad-input", field)
	}
	a := w.do(request{method: "POST", path: "/v1/notifications/batch", body: `{"to":"bob","template":"welcome","variables":{"plan":"a"}}` + "\n" + `{"to":"bob","template":"welcome"}`}).want(http.StatusOK)
	if !strings.Contains(a.body, `"status":"stored"`) || !strings.Contains(a.body, "variables.plan") {
		t.Errorf("batch: %s", a.body)
	}
}

func TestATemplateIsShownAsSomebodyWouldGetIt(t *testing.T) {
	w := newWorld(t)
	w.setTemplate("welcome", welcomeTemplate, "", "").want(http.StatusCreated)
	var v struct {
		Content struct{ Title, Body string }
		Missing []string
	}
	w.post("/v1/templates/welcome/preview", `{"locale":"de","attributes":{"name":"Ada"}}`).want(http.StatusOK).into(&v)
	if v.Content.Title != "Hallo Ada" || len(v.Missing) != 1 || v.Missing[0] != "plan" {
		t.Errorf("%+v", v)
	}
	w.post("/v1/templates/welcome/preview", `{"variables":{"plan":"pro"}}`).want(http.StatusOK).into(&v)
	if v.Content.Body != "Your plan is pro" || len(v.Missing) != 0 {
		t.Errorf("%+v", v)
	}
	w.post("/v1/templates/welcome/preview", `{"variables":{"a b":"pro"}}`).problem(http.StatusBadRequest, "bad-input", "variables")
}

func TestBadTemplatesNameTheirField(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{}`:                              "content.title",
		`{"title":"x"}`:                   "title",
		`{"content":{"title":"{{a b}}"}}`: "content.title",
		`{"content":{"title":"x","language":"e"}}`:                                                       "content.language",
		`{"content":{"title":"x","language":"de","locales":{"de":{}}}}`:                                  "content.locales",
		`{"content":{"title":"x","locales":{"de":{"telegram":{"buttons":[[{"text":"a","url":"x"}]]}}}}}`: "content.locales.de.telegram.buttons[0][0].url",
		`{"content":{"title":"` + strings.Repeat("x", 33<<10) + `"}}`:                                    "content",
	} {
		w.setTemplate("a", body, "", "").problem(http.StatusBadRequest, "bad-input", field)
	}
	w.setTemplate("a%20b", welcomeTemplate, "", "").problem(http.StatusBadRequest, "bad-input", "template")
}
