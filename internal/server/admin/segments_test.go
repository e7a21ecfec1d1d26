package admin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/sending/push"
)

// picks returns the expression of a stored segment; empty: there is none.
func (w *world) picks(app, name string) string {
	w.Helper()
	one, err := w.crowds.Get(w.Context(), app, name)
	if err != nil {
		return ""
	}
	return one.Where
}

func (w *world) keeps(app, name, where string) {
	w.Helper()
	_, _, err := w.crowds.Set(w.Context(), app, name, segment.Change{Where: where})
	must(w.T, err)
}

// crowd registers people of the app shop over webhooks, each with a number n from 0 on.
func (w *world) crowd(n int) {
	w.Helper()
	for i := range n {
		w.register(push.Webhook, fmt.Sprintf(`{"url":"https://example.org/%d"}`, i), audience.Endpoint{
			Recipient: fmt.Sprintf("person-%d", i), Attributes: audience.Attributes{"n": audience.Number(float64(i)), "city": audience.Text("Oslo")},
		})
	}
}

func TestASegmentIsMadeChangedAndDeletedOnThePage(t *testing.T) {
	w := newWorld(t, new(post).serve)
	w.crowd(9)
	b := w.signedIn()
	_, page := b.get("/ui/segments")
	wants(t, page, "No segment yet", `href="/ui/new-segment"`)
	_, page = b.get("/ui/new-segment")
	wants(t, page, "they are counted here", `<option value="n">`, `<option value="tags">`)
	form := formOf(t, page)
	form.Set("name", "no name")
	form.Set("description", "Who has more")
	form.Set("row-0-field", "n")
	form.Set("row-0-op", "at_least")
	form.Set("row-0-value", "3")
	status, page := b.post("/ui/segments", form)
	if says := problemAt(t, page, "name"); status != http.StatusUnprocessableEntity || !strings.Contains(says, "allowed are") {
		t.Errorf("a bad name is answered %d with %q", status, says)
	}
	form = formOf(t, page)
	if form.Get("where") != "n >= 3" || form.Get("shown") != "n >= 3" {
		t.Errorf("the rows were not written: %v", form)
	}
	form.Set("name", "new")
	if status, page = b.post("/ui/segments", form); status != http.StatusOK {
		t.Fatalf("answered %d:\n%s", status, page)
	}
	wants(t, page, "Saved.", "<b>6</b> addresses can be reached.", "n is at least 3", "person-3", "/v1/segments/new", `href="/ui/campaigns/new?segment=new"`, `href="/ui/audience/export?segment=new&amp;format=csv"`)
	if got := w.picks("shop", "new"); got != "n >= 3" {
		t.Errorf("stored is %q", got)
	}
	_, page = b.get("/ui/segments")
	wants(t, page, `href="/ui/segments/new"`, "<b>Who has more</b>", "n is at least 3")
	_, page = b.get("/ui/find?q=has+MORE")
	wants(t, page, "<h2>Segments</h2>", `href="/ui/segments/new"`)
	status, page = b.get("/ui/audience/export?segment=new&format=csv")
	if status != http.StatusOK || strings.Count(page, "person-") != 6 || strings.Contains(page, "person-2") {
		t.Errorf("exported is %d %s", status, page)
	}
	_, page = b.get("/ui/audience?segment=new")
	if !strings.Contains(page, "person-3") || strings.Contains(page, "person-2") || !strings.Contains(page, "<option selected>new</option>") {
		t.Errorf("everybody of it is not shown:\n%s", page)
	}

	_, page = b.get("/ui/segments/new")
	form = formOf(t, page)
	form.Set("where", "n < 2 or n > 7")
	_, page = b.post("/ui/segments/new", form)
	wants(t, page, "Saved.", "<b>3</b> addresses")
	status, page = b.post("/ui/segments/new/delete", url.Values{"revision": {"other"}})
	if wants(t, page, "Somebody else has changed this segment"); status != http.StatusConflict {
		t.Errorf("deleting what was changed is answered %d", status)
	}
	_, page = b.get("/ui/segments/new")
	status, page = b.post("/ui/segments/new/delete", fieldsIn(t, page, "delete"))
	if wants(t, page, "new is deleted", "Undo"); status != http.StatusOK || w.picks("shop", "new") != "" {
		t.Errorf("deleting is answered %d, and it is %q", status, w.picks("shop", "new"))
	}
	undo := fieldsIn(t, page, "gone")
	_, page = b.post("/ui/segments/new/restore", undo)
	if wants(t, page, "Saved.", "Who has more"); w.picks("shop", "new") != "n < 2 or n > 7" {
		t.Errorf("brought back it is %q", w.picks("shop", "new"))
	}
	if status, page = b.post("/ui/segments/new/restore", undo); status != http.StatusOK || !strings.Contains(page, "Who has more") {
		t.Errorf("pressing Undo twice is answered %d:\n%s", status, page)
	}
	w.keeps("shop", "new", "n > 8")
	if status, page = b.post("/ui/segments/new/restore", undo); status != http.StatusConflict || w.picks("shop", "new") != "n > 8" {
		t.Errorf("bringing it back over another is answered %d:\n%s", status, page)
	}
}

func TestTheExpressionIsTheTruthAndRowsFollowIt(t *testing.T) {
	w := newWorld(t)
	w.crowd(4)
	b := w.signedIn()
	_, page := b.get("/ui/new-segment")
	form := formOf(t, page)
	form.Set("name", "x")
	press := func(then string) {
		t.Helper()
		form.Set("then", then)
		status, page := b.post("/ui/segments", form)
		if status != http.StatusOK {
			t.Fatalf("%s is answered %d:\n%s", then, status, page)
		}
		form = formOf(t, page)
	}
	look := func() (page string) {
		t.Helper()
		status, page := b.post("/ui/new-segment/look", form)
		if status != http.StatusOK {
			t.Fatalf("looking is answered %d:\n%s", status, page)
		}
		form = formOf(t, page)
		return page
	}
	row := func(n int, field, op, value string) {
		t.Helper()
		at := fmt.Sprintf("row-%d-", n)
		form.Set(at+"field", field)
		form.Set(at+"op", op)
		form.Set(at+"value", value)
	}
	row(0, "city", "is", "Oslo")
	press("more")
	if form.Get("where") != `city = "Oslo"` || !form.Has("row-1-field") {
		t.Fatalf("after a row was added: %v", form)
	}
	row(1, "n", "less", "2")
	look()
	form.Set("join", "or")
	look()
	if form.Get("where") != `city = "Oslo" or n < 2` {
		t.Errorf("with two rows of which one suffices: %v", form)
	}
	form.Set("where", `n > 0 and tags contains "staff, old"`) // the text is changed: the rows follow
	look()
	if form.Get("row-0-field") != "n" || form.Get("row-0-op") != "more" || form.Get("row-1-field") != "tags" || form.Get("row-1-value") != "staff, old" || form.Get("join") != "and" {
		t.Errorf("the rows of the text: %v", form)
	}
	press("drop-1")
	if form.Get("where") != "n > 0" || form.Has("row-1-field") {
		t.Errorf("after a row was removed: %v", form)
	}

	row(0, "n", "more", "7")
	form.Set("where", "n > 3") // both are changed: the person is told which one counts
	if page = look(); form.Get("where") != "n > 3" || form.Get("row-0-value") != "3" || !strings.Contains(page, `id="both"`) {
		t.Errorf("after both were changed: %v", form)
	}
	if page = look(); strings.Contains(page, `id="both"`) {
		t.Error("what was changed before is told again")
	}

	form.Set("where", "n > ") // a mistake: the rows wait, and do not replace what is being typed
	row(0, "n", "more", "1")
	page = look()
	if wants(t, page, "Found the end where a value (a text in quotes, a number, true or false) is needed at character 4."); form.Get("where") != "n >" || form.Get("row-0-value") != "1" {
		t.Errorf("beside a mistake: %v", form)
	}
	form.Set("then", "save")
	status, page := b.post("/ui/segments", form)
	if says := problemAt(t, page, "where"); status != http.StatusUnprocessableEntity || !strings.Contains(says, "at character 4") {
		t.Errorf("saving a mistake is answered %d with %q", status, says)
	}

	form.Set("where", "n = 1 and (n = 2 or n = 3)")
	page = look()
	if wants(t, page, "Rows cannot show this expression", "Nobody."); form.Has("row-0-field") {
		t.Errorf("rows of what they cannot say: %v", form)
	}
	form.Set("where", "")
	look()
	row(0, "", "is", "Oslo")
	page = look()
	if wants(t, page, "Row 1: Say what is compared", `aria-describedby="row-0-problem"`); form.Get("where") != "" {
		t.Errorf("of a row without a field: %v", form)
	}
	form.Set("then", "save")
	if status, page = b.post("/ui/segments", form); status != http.StatusUnprocessableEntity {
		t.Errorf("saving a row without a field is answered %d:\n%s", status, page)
	}
	row(0, "n", "known", "")
	form.Set("then", "save")
	b.post("/ui/segments", form) // what stands in the rows is saved, though nothing has looked at it
	if got := w.picks("shop", "x"); got != "exists n" {
		t.Errorf("stored is %q", got)
	}
}

// With htmx only the part that the person is not typing in is replaced.
func TestWhileSomebodyTypesOnlyTheOtherPartIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.crowd(4)
	b := w.signedIn()
	_, page := b.get("/ui/new-segment")
	form := formOf(t, page)
	look := func() string {
		t.Helper()
		_, part := b.post("/ui/new-segment/look", form, "HX-Request", "true")
		return part
	}
	has := func(part string, where, rows bool) {
		t.Helper()
		if got := strings.Contains(part, `id="where-field" hx-swap-oob`); got != where {
			t.Errorf("the expression is replaced: %t, want %t in\n%s", got, where, part)
		}
		if got := strings.Contains(part, `id="rows" class="rows" hx-swap-oob`); got != rows {
			t.Errorf("the rows are replaced: %t, want %t in\n%s", got, rows, part)
		}
		wants(t, part, `id="built" hidden hx-swap-oob`, `id="call-now" hx-swap-oob`)
	}
	form.Set("where", "n > 1")
	part := look()
	has(part, false, true)
	wants(t, part, "<b>2</b> addresses", `value="more" selected`, `name="shown" value="n &gt; 1"`)
	form = formOf(t, page)
	form.Set("row-0-field", "n")
	part = look()
	has(part, false, false)
	wants(t, part, "Row 1: Is missing")
	form.Set("row-0-value", "1")
	part = look()
	has(part, true, false)
	wants(t, part, "<b>1</b> address can be reached", ">\nn = 1</textarea>")
	if strings.Contains(part, `id="strange"`) {
		t.Errorf("an attribute that people have is strange:\n%s", part)
	}
	form.Set("where", `cities = "Oslo"`)
	part = look()
	has(part, false, true)
	wants(t, part, "Nobody has this attribute yet: cities.", "Nobody.")
	form.Set("where", "n >> 1")
	part = look()
	has(part, false, false)
	wants(t, part, "at character 4")
}

func TestACampaignIsSentToASegmentFromThePage(t *testing.T) {
	w := newWorld(t)
	w.crowd(5)
	w.keeps("shop", "few", "n < 3")
	b := w.signedIn()
	_, page := b.get("/ui/campaigns/new?segment=few")
	form := formOf(t, page)
	if form.Get("segment") != "few" {
		t.Fatalf("it begins with %v", form)
	}
	form.Set("name", "Tides")
	form.Set("title", "Low tide")
	form.Set("where", "n > 0")
	form.Set("then", "draft")
	_, page = b.post("/ui/campaigns/preview", form)
	wants(t, page, "<b>2</b> can be reached")
	status, page := b.post("/ui/campaigns", form)
	if status != http.StatusOK {
		t.Fatalf("answered %d:\n%s", status, page)
	}
	wants(t, page, "few", "n &lt; 3", "until it begins")
	_, list := b.get("/ui/campaigns")
	id := idIn(list)
	w.keeps("shop", "few", "n < 2")
	_, page = b.get("/ui/campaigns/" + id)
	wants(t, page, "Send it to 1 address") // the question counts with the segment as it is now
	_, page = b.get("/ui/campaigns/" + id + "/edit")
	form = formOf(t, page)
	if form.Get("segment") != "few" || form.Get("where") != "n > 0" {
		t.Errorf("the form of the draft has %v", form)
	}
	status, page = b.post("/ui/segments/few/delete", url.Values{"revision": {w.revision("few")}})
	if wants(t, page, "Segment few is used by campaign Tides, which has not begun"); status != http.StatusConflict {
		t.Errorf("deleting what a draft uses is answered %d", status)
	}
	form.Set("segment", "")
	form.Set("then", "draft")
	b.post("/ui/campaigns/"+id, form)
	must(t, w.crowds.Delete(t.Context(), "shop", "few", setting.Match{}))
	form.Set("segment", "few")
	status, page = b.post("/ui/campaigns/"+id, form)
	if says := problemAt(t, page, "segment"); status != http.StatusUnprocessableEntity || !strings.Contains(says, "has no segment few") {
		t.Errorf("a segment that is gone is answered %d with %q", status, says)
	}
}

func (w *world) revision(name string) string {
	w.Helper()
	one, err := w.crowds.Get(w.Context(), "shop", name)
	must(w.T, err)
	return one.Revision()
}

// idIn returns the id of the first campaign of a list.
func idIn(page string) string {
	_, rest, _ := strings.Cut(page, `href="/ui/campaigns/0`)
	id, _, _ := strings.Cut(rest, `"`)
	return "0" + id
}

func TestOfTwoWhoChangeASegmentTheLaterIsTold(t *testing.T) {
	w := newWorld(t)
	w.keeps("shop", "few", "n < 3")
	b := w.signedIn()
	_, page := b.get("/ui/segments/few")
	mine := formOf(t, page)
	w.keeps("shop", "few", "n < 4")
	mine.Set("where", "n < 9")
	status, page := b.post("/ui/segments/few", mine)
	if wants(t, page, "Somebody else has changed this segment"); status != http.StatusConflict || w.picks("shop", "few") != "n < 4" {
		t.Errorf("answered %d, stored is %s", status, w.picks("shop", "few"))
	}
	again := formOf(t, page)
	b.post("/ui/segments/few", again)
	if got := w.picks("shop", "few"); got != "n < 9" {
		t.Errorf("saved again it is %q", got)
	}
	_, page = b.get("/ui/segments/few")
	mine = formOf(t, page)
	must(t, w.crowds.Delete(t.Context(), "shop", "few", setting.Match{}))
	status, page = b.post("/ui/segments/few", mine)
	if wants(t, page, "Somebody else has deleted this segment"); status != http.StatusConflict {
		t.Errorf("a deleted one is answered %d", status)
	}
	b.post("/ui/segments/few", formOf(t, page))
	if got := w.picks("shop", "few"); got != "n < 9" {
		t.Errorf("made anew it is %q", got)
	}
	_, page = b.get("/ui/new-segment")
	other := formOf(t, page)
	other.Set("name", "few")
	other.Set("where", "n = 1")
	status, page = b.post("/ui/segments", other)
	if says := problemAt(t, page, "name"); status != http.StatusConflict || !strings.Contains(says, "of this name already") {
		t.Errorf("a second one of the name is answered %d with %q", status, says)
	}
}

func TestSegmentsOfOtherAppsAndHostileOnesStayWhereTheyAre(t *testing.T) {
	w := newWorld(t)
	w.keeps("other", "theirs", "n < 3")
	_, _, err := w.crowds.Set(t.Context(), "shop", "bad", segment.Change{Where: `city = "<script>alert(1)</script>\"'"`, Description: `"><img src=x onerror=alert(1)>`})
	must(t, err)
	b := w.as(signin.View)
	for path, want := range map[string]int{"/ui/segments/theirs": http.StatusNotFound, "/ui/segments/bad": http.StatusOK, "/ui/segments": http.StatusOK, "/ui/new-segment": http.StatusForbidden} {
		status, page := b.get(path)
		if status != want {
			t.Errorf("%s is answered %d", path, status)
		}
		if strings.Contains(page, "theirs<") || strings.Contains(page, "<script>alert") || strings.Contains(page, "<img src=x") {
			t.Errorf("%s has what is not its own:\n%s", path, page)
		}
	}
	if _, page := b.get("/ui/segments/bad"); strings.Contains(page, "<form class=\"columns\"") || !strings.Contains(page, "Nobody.") {
		t.Errorf("somebody who may only look gets a form:\n%s", page)
	}
	_, page := w.signedIn().get("/ui/segments/bad")
	if form := formOf(t, page); form.Get("row-0-value") != `<script>alert(1)</script>"'` {
		t.Errorf("its row is %v", form)
	}
}

func TestATriedExpressionIsSavedAsASegment(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	_, page := b.post("/ui/audience/count", url.Values{"where": {"n > 1 or n < 0"}, "tags_any": {"news, old ones"}}, "HX-Request", "true")
	wants(t, page, "Save as a segment")
	_, rest, _ := strings.Cut(page, `href="`)
	path, _, _ := strings.Cut(rest, `"`)
	_, page = b.get(html.UnescapeString(path))
	if form := formOf(t, page); form.Get("where") != `(tags in ("news", "old ones")) and (n > 1 or n < 0)` {
		t.Errorf("it begins with %v", form)
	}
	if _, page = b.post("/ui/audience/count", url.Values{"where": {""}}, "HX-Request", "true"); strings.Contains(page, "Save as") {
		t.Errorf("everybody is saved as a segment:\n%s", page)
	}
}
