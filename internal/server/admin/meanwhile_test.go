package admin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
)

// asked posts a new campaign, answers the question whether to send it, and returns the form that the button posts.
func (b *browser) asked(form url.Values) url.Values {
	b.Helper()
	form.Set("then", "ask")
	status, page := b.post("/ui/campaigns", form)
	if status != http.StatusOK || !strings.Contains(page, `id="question"`) {
		b.Fatalf("nothing is asked, but answered %d:\n%s", status, page)
	}
	form = formOf(b.T, page)
	form.Set("then", "start")
	return form
}

func TestASecondPressOfSendFindsTheCampaignThatTheFirstHasSent(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	w.subscribe("shop", "news")
	form := b.asked(url.Values{"title": {"Once"}, "channel": {"webhook"}, "track": {"on"}, "key": {"k1"}})
	b.post("/ui/campaigns", form)
	list, err := w.store.List(t.Context(), "shop", 9, 0)
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("%d campaigns", len(list))
	}
	b.eventually("/ui/campaigns/"+list[0].ID+"/progress", `data-state="completed"`)
	status, page := b.post("/ui/campaigns", form)
	if wants(t, page, "<h1>Once</h1>", `data-state="completed"`); status != http.StatusOK || strings.Contains(page, "was not started") {
		t.Errorf("answered %d:\n%s", status, page)
	}
	if list, err = w.store.List(t.Context(), "shop", 9, 0); err != nil || len(list) != 1 {
		t.Errorf("%d campaigns, %v", len(list), err)
	}
}

func TestOfTwoWhoChangeACampaignTheLaterIsTold(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	w.subscribe("shop", "news")
	id := b.create(url.Values{"title": {"First"}, "channel": {"webhook"}, "track": {"on"}, "key": {"k1"}})
	path := "/ui/campaigns/" + id
	_, page := b.get(path + "/edit")
	mine, theirs := formOf(t, page), formOf(t, page)
	theirs.Set("title", "Theirs")
	theirs.Set("then", "draft")
	_, page = b.post(path, theirs)
	wants(t, page, "<h1>Theirs</h1>")
	if _, page = b.post(path, theirs); !strings.Contains(page, "<h1>Theirs</h1>") {
		t.Errorf("the button pressed twice is answered:\n%s", page)
	}
	for _, then := range []string{"draft", "start"} {
		mine.Set("title", "Mine")
		mine.Set("then", then)
		status, page := b.post(path, mine)
		wants(t, page, "omebody else has changed this campaign", `value="Mine"`)
		if c, err := w.store.Get(t.Context(), "shop", id); err != nil || status != http.StatusConflict || c.Spec.Content.Title != "Theirs" || c.State != campaign.Draft {
			t.Errorf("%s: answered %d, stored %+v, %v", then, status, c, err)
		}
		if then == "draft" {
			continue
		}
		again := formOf(t, page)
		again.Set("then", "draft")
		_, page = b.post(path, again)
		wants(t, page, "<h1>Mine</h1>", `data-state="draft"`)
	}
}

func TestTheQuestionIsAskedOnlyForWhatCanBeSent(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	w.subscribe("shop", "news")
	at := time.Now().UTC().Add(48 * time.Hour).Format("2006-01-02T15:04")
	form := url.Values{"title": {"x"}, "channel": {"webhook"}, "track": {"on"}, "key": {"k1"}, "local_at": {at}, "send_at": {at}, "then": {"ask"}}
	status, page := b.post("/ui/campaigns", form)
	if says := problemAt(t, page, "send_at"); status != http.StatusUnprocessableEntity || !strings.Contains(says, "give one of them") || strings.Contains(page, `id="question"`) {
		t.Errorf("answered %d with %q", status, says)
	}
}

func TestRowsAndAnExpressionThatWereBothChangedAreNotSavedUnseen(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	_, page := b.get("/ui/new-segment")
	form := formOf(t, page)
	form.Set("name", "both")
	form.Set("row-0-field", "city")
	form.Set("row-0-value", "Oslo")
	form.Set("where", "n > 5")
	form.Set("then", "save")
	status, page := b.post("/ui/segments", form)
	if wants(t, page, "othing is saved yet", "n &gt; 5"); status != http.StatusUnprocessableEntity || w.picks("shop", "both") != "" {
		t.Errorf("answered %d, stored %q", status, w.picks("shop", "both"))
	}
	form = formOf(t, page)
	form.Set("then", "save")
	if status, page = b.post("/ui/segments", form); status != http.StatusOK || w.picks("shop", "both") != "n > 5" {
		t.Errorf("saved again is answered %d, stored %q:\n%s", status, w.picks("shop", "both"), page)
	}
}

func TestAFormPostedAfterTheSignInHasEndedSaysThatNothingWasDone(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	form := url.Values{"title": {"x"}, "channel": {"webhook"}, "key": {"k1"}, "then": {"draft"}}
	status, page := b.post("/ui/campaigns", form)
	if wants(t, page, "nothing was done", `name="key"`); status != http.StatusUnauthorized {
		t.Errorf("answered %d", status)
	}
	status, page = b.post("/ui/campaigns", form, "HX-Request", "true")
	if wants(t, page, "what you typed is still here"); status != http.StatusUnauthorized || strings.Contains(page, "<form") {
		t.Errorf("a script is answered %d:\n%s", status, page)
	}
}
