package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/sending/push"
)

// says returns what a stored template says, as JSON; empty: there is none.
func (w *world) says(app, name string) string {
	w.Helper()
	t, err := w.shelf.Get(w.Context(), app, name)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %s", t.Revision, asJSON(w.T, t.Content))
}

func TestATemplateIsWrittenChangedAndDeletedOnThePage(t *testing.T) {
	w := newWorld(t, new(post).serve)
	b := w.signedIn()
	_, page := b.get("/ui/templates")
	wants(t, page, "No template yet", `href="/ui/new-template"`)
	_, page = b.get("/ui/new-template")
	form := formOf(t, page)
	form.Set("name", "no name")
	form.Set("title", "Hi {{name|friend}}")
	form.Set("body", "At the {{place}}.")
	form.Set("locale-0-tag", "fr")
	form.Set("locale-0-body", "Au {{place}}.")
	status, page := b.post("/ui/templates", form)
	if says := problemAt(t, page, "name"); status != http.StatusUnprocessableEntity || !strings.Contains(says, "allowed are") {
		t.Errorf("a bad name is answered %d with %q", status, says)
	}
	form = formOf(t, page)
	form.Set("name", "new")
	if status, page = b.post("/ui/templates", form); status != http.StatusOK {
		t.Fatalf("answered %d:\n%s", status, page)
	}
	wants(t, page, "Saved as revision 1.", "At the {{place}}.", "has to fill in: place.", "/v1/templates/new", "If-Match: &#34;1&#34;")
	if got, want := w.says("shop", "new"), `1 {"title":"Hi {{name|friend}}","body":"At the {{place}}.","telegram":{},"webpush":{},"fcm":{},"apns":{},"locales":{"fr":{"body":"Au {{place}}."}}}`; !sameJSON(t, got, want) {
		t.Errorf("stored is %s", got)
	}
	_, page = b.get("/ui/templates")
	wants(t, page, `href="/ui/templates/new"`, "<code>place</code>", "fr")

	_, page = b.get("/ui/templates/new?in=fr")
	if devices := strings.Count(page, `<figure class="device`); devices != 3 || strings.Count(page, `<div class="body">Au {{place}}.</div>`) != 3 {
		t.Errorf("in French %d devices show it:\n%s", devices, page)
	}
	form = formOf(t, page)
	form.Set("body", "On the {{place}}.")
	b.post("/ui/templates/new", form)
	if got := w.says("shop", "new"); !strings.HasPrefix(got, "2 ") || !strings.Contains(got, "On the {{place}}.") {
		t.Errorf("changed it is %s", got)
	}
	_, page = b.get("/ui/find?q=NEW")
	wants(t, page, "<h2>Templates</h2>", `href="/ui/templates/new"`)
	_, page = b.get("/ui/campaigns/new?template=new")
	if used := formOf(t, page); used.Get("used") != "new" || used.Get("used_revision") != "2" || used.Get("body") != "On the {{place}}." || !used.Has("variable-place") {
		t.Errorf("a campaign of it begins with %v", used)
	}

	before := w.says("shop", "new")
	status, page = b.post("/ui/templates/new/delete", url.Values{"revision": {"2"}})
	if wants(t, page, "new is deleted", "Undo"); status != http.StatusOK || w.says("shop", "new") != "" {
		t.Errorf("deleting is answered %d, and it is %q", status, w.says("shop", "new"))
	}
	undo := fieldsIn(t, page, "gone")
	_, page = b.post("/ui/templates/new/restore", undo)
	wants(t, page, "Saved as revision 1.")
	if got := w.says("shop", "new"); got[1:] != before[1:] {
		t.Errorf("brought back it is %s, was %s", got, before)
	}
	if status, page = b.post("/ui/templates/new/restore", undo); status != http.StatusOK {
		t.Errorf("pressing Undo twice is answered %d:\n%s", status, page)
	}
	w.stores("shop", "new", template.Content{Content: push.Content{Title: "Another"}})
	if status, page = b.post("/ui/templates/new/restore", undo); status != http.StatusConflict {
		t.Errorf("bringing it back over another is answered %d:\n%s", status, page)
	}
}

// sameJSON compares what world.says returns, whatever the order of its fields and its empty ones.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y template.Content
	ra, ja, _ := strings.Cut(a, " ")
	rb, jb, _ := strings.Cut(b, " ")
	must(t, json.Unmarshal([]byte(ja), &x))
	must(t, json.Unmarshal([]byte(jb), &y))
	return ra == rb && asJSON(t, x) == asJSON(t, y)
}

// fieldsIn returns the hidden fields of a form.
func fieldsIn(t *testing.T, page, id string) url.Values {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	must(t, err)
	v := make(url.Values)
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || attribute(n, "id") != id {
			continue
		}
		for field := range n.Descendants() {
			if name := attribute(field, "name"); name != "" {
				v.Add(name, attribute(field, "value"))
			}
		}
	}
	return v
}

func TestOfTwoWhoChangeATemplateTheLaterIsTold(t *testing.T) {
	w := newWorld(t)
	w.stores("shop", "closed", closed())
	b := w.signedIn()
	_, page := b.get("/ui/templates/closed")
	mine := formOf(t, page)
	wants(t, page, "what is for Android alone (fcm)")
	w.stores("shop", "closed", template.Content{Content: push.Content{Title: "Theirs", FCM: push.FCMContent{Sound: "horn"}}})

	mine.Set("title", "Mine")
	status, page := b.post("/ui/templates/closed", mine)
	if wants(t, page, "Somebody else has saved revision 2", "saving again replaces theirs"); status != http.StatusConflict || !strings.Contains(w.says("shop", "closed"), "Theirs") {
		t.Errorf("answered %d, stored is %s", status, w.says("shop", "closed"))
	}
	again := formOf(t, page)
	if again.Get("title") != "Mine" || again.Get("revision") != "2" {
		t.Errorf("the form has become %v", again)
	}
	b.post("/ui/templates/closed", again)
	if got := w.says("shop", "closed"); !strings.HasPrefix(got, "3 ") || !strings.Contains(got, `"Mine"`) || !strings.Contains(got, "horn") {
		t.Errorf("saved again it is %s", got)
	}
	if status, page = b.post("/ui/templates/closed/delete", url.Values{"revision": {"2"}}); status != http.StatusConflict || w.says("shop", "closed") == "" {
		t.Errorf("deleting what was changed is answered %d:\n%s", status, page)
	}

	_, page = b.get("/ui/templates/closed")
	mine = formOf(t, page)
	must(t, w.shelf.Delete(t.Context(), "shop", "closed", template.Match{}))
	status, page = b.post("/ui/templates/closed", mine)
	if wants(t, page, "Somebody else has deleted this template"); status != http.StatusConflict {
		t.Errorf("changing a deleted one is answered %d", status)
	}
	b.post("/ui/templates/closed", formOf(t, page))
	if got := w.says("shop", "closed"); !strings.HasPrefix(got, "1 ") {
		t.Errorf("made anew it is %s", got)
	}
	fresh := url.Values{"name": {"closed"}, "title": {"x"}}
	status, page = b.post("/ui/templates", fresh)
	if says := problemAt(t, page, "name"); status != http.StatusConflict || !strings.Contains(says, "already") {
		t.Errorf("a second of the name is answered %d with %q", status, says)
	}
}

func TestAFormerRevisionIsShownAndBroughtBack(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	w.stores("shop", "tides", template.Content{Content: push.Content{Title: "First " + hostile, FCM: push.FCMContent{Sound: "bell"}}})
	if _, page := b.get("/ui/templates/tides"); strings.Contains(page, `id="versions"`) {
		t.Error("a template that was never changed has a list of revisions")
	}
	w.stores("shop", "tides", template.Content{Content: push.Content{Title: "Second"}})
	w.stores("shop", "tides", template.Content{Content: push.Content{Title: "Third"}})
	_, page := b.get("/ui/templates/tides")
	wants(t, page, `href="/ui/templates/tides?revision=2"`, `href="/ui/templates/tides?revision=1"`, "<b>3</b>")
	if form := formOf(t, page); form.Get("title") != "Third" {
		t.Errorf("the form is %v", form)
	}
	_, page = b.get("/ui/templates/tides?revision=1")
	checkHarmless(t, "a former revision", page)
	wants(t, page, "This is what revision 1 said.", "<b>1</b>", `href="/ui/templates/tides">3</a>`)
	form := formOf(t, page)
	if !strings.HasPrefix(form.Get("title"), "First") || form.Get("revision") != "3" {
		t.Errorf("the form is %v", form)
	}
	b.post("/ui/templates/tides", form)
	if got := w.says("shop", "tides"); !strings.HasPrefix(got, "4 ") || !strings.Contains(got, "First") || !strings.Contains(got, "bell") {
		t.Errorf("brought back it is %s", got)
	}
	_, page = w.as(signin.View).get("/ui/templates/tides?revision=2")
	if wants(t, page, "This is what revision 2 said.", "Second"); strings.Contains(page, "Save it") {
		t.Error("somebody who may only look is told to save")
	}
	for _, path := range []string{"/ui/templates/tides?revision=77", "/ui/templates/tides?revision=" + url.QueryEscape(hostile)} {
		status, page := b.get(path)
		if checkHarmless(t, path, page); status != http.StatusNotFound {
			t.Errorf("%s is answered %d", path, status)
		}
	}
}

func TestAMessageIsShownWhileItIsWritten(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	form := url.Values{"title": {"Low tide"}, "locale-0-tag": {"fr"}, "locale-0-title": {"Marée basse"}, "in": {"fr"}, "name": {"tides"}, "action-0-title": {"Table"}, "button-0-text": {"Map"}, "button-0-url": {"https://example.org/{{place}}"}}
	_, page := b.post("/ui/new-template/look", form, "HX-Request", "true")
	wants(t, page, "Marée basse", `<figure class="device phone">`, `<figure class="device browser">`, `<figure class="device telegram">`, "Table", "Map", "/v1/templates/tides", "If-None-Match: *", "place.")
	if strings.Contains(page, "<html") {
		t.Error("the part is a whole page")
	}
	_, page = b.post("/ui/new-template/look", form)
	wants(t, page, "Marée basse", `name="locale-0-title"`)
	_, page = b.post("/ui/new-template/look", url.Values{"body": {"x"}, "url": {"javascript:alert(1)"}}, "HX-Request", "true")
	wants(t, page, `<a href="#url">`)
	_, page = b.post("/ui/new-template/look", url.Values{}, "HX-Request", "true")
	wants(t, page, "Write something")
	form.Set("then", "more-locale")
	_, page = b.post("/ui/templates", form)
	wants(t, page, `name="locale-1-tag"`)
	if w.says("shop", "tides") != "" {
		t.Error("asking for another language stored the template")
	}
}

func TestWhoMayOnlyLookSeesTemplatesWithoutTheirForm(t *testing.T) {
	w := newWorld(t)
	w.stores("shop", "closed", closed())
	w.stores("other", "theirs", closed())
	b := w.as(signin.View)
	_, page := b.get("/ui/templates/closed?in=fr")
	wants(t, page, "{{place}} : fermé.", "Carte")
	if regexp.MustCompile(`<textarea|method="post" action="/ui/templates|new-template`).MatchString(page) {
		t.Errorf("the page offers changes:\n%s", page)
	}
	if status, page := b.get("/ui/templates/theirs"); status != http.StatusNotFound {
		t.Errorf("another app's template is answered %d:\n%s", status, page)
	}
	_, page = b.get("/ui/templates")
	if strings.Contains(page, "theirs") || strings.Contains(page, "new-template") {
		t.Errorf("the list:\n%s", page)
	}
}

func TestPagesOfTemplatesStayHarmlessAndLight(t *testing.T) {
	w := newWorld(t, new(post).serve)
	long := strings.Repeat(hostile, 30)
	for i := range template.MaxTemplates - 1 {
		w.stores("shop", fmt.Sprintf("%03d%s", i, strings.Repeat("x", 120)), template.Content{Content: push.Content{Title: long, Body: "{{place|" + long + "}}", Icon: "https://example.org/" + hostile, Image: "https://example.org/" + hostile}})
	}
	w.stores("shop", "a", template.Content{Content: push.Content{Title: hostile, Body: hostile, URL: "https://example.org/?" + hostile}, Locales: map[string]template.Variant{"fr": {Title: hostile}}})
	b := w.signedIn()
	first := "000" + strings.Repeat("x", 120)
	for _, path := range []string{"/ui/templates", "/ui/templates?after=" + first, "/ui/templates?after=" + url.QueryEscape(hostile), "/ui/templates/a?in=" + url.QueryEscape(hostile), "/ui/templates/a?in=fr", "/ui/templates/" + first, "/ui/templates/" + url.PathEscape(hostile), "/ui/find?q=xxx", "/ui/campaigns/new?template=" + url.QueryEscape(hostile), "/ui/campaigns/new?template=a"} {
		_, page := b.get(path)
		checkHarmless(t, path, page)
		if len(page) > mostBytes {
			t.Errorf("%s has %d bytes", path, len(page))
		}
	}
	typed := url.Values{"name": {hostile}, "title": {hostile}, "of": {hostile}, "revision": {hostile}, "in": {hostile}, "content": {hostile}, "locale-0-tag": {hostile}}
	for _, path := range []string{"/ui/templates", "/ui/templates/a", "/ui/templates/a/delete", "/ui/templates/a/restore", "/ui/new-template/look"} {
		for _, by := range [][]string{nil, {"HX-Request", "true"}} {
			status, page := b.post(path, typed, by...)
			checkHarmless(t, "POST "+path, page)
			if status >= http.StatusInternalServerError {
				t.Errorf("%s: %d", path, status)
			}
		}
	}
	status, page := b.post("/ui/templates/a/delete", url.Values{"revision": {"1"}})
	checkHarmless(t, "deleted", page)
	if status != http.StatusOK || len(page) > mostBytes {
		t.Errorf("the page after deleting is answered %d and has %d bytes", status, len(page))
	}
	count := 0
	for path := "/ui/templates"; path != ""; {
		_, page := b.get(path)
		count += strings.Count(page, `<a class="long" href="/ui/templates/`)
		next := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(page)
		path = ""
		if next != nil {
			path = html.UnescapeString(next[1])
		}
	}
	if count != template.MaxTemplates-1 { // without the deleted one
		t.Errorf("the list has %d templates, want %d", count, template.MaxTemplates-1)
	}
}
