package admin_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/server/admin"
)

// actions lists an app's recorded actions in short form, oldest first.
func actions(t *testing.T, cfg *admin.Config, app string) (list []string) {
	t.Helper()
	found, err := cfg.Audit.List(t.Context(), app, audit.Filter{}, 100)
	must(t, err)
	for i := len(found) - 1; i >= 0; i-- {
		d := &found[i]
		if d.Way != audit.Page || d.Address != "127.0.0.1" || d.By == "" {
			t.Errorf("%+v", d)
		}
		list = append(list, d.Action+" "+d.Object+" "+string(d.Outcome))
	}
	return list
}

func TestActionsOnThePageAreAudited(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, (&post{}).serve, keep(&cfg))
	b := w.signedIn()
	id := b.create(url.Values{"title": {"Spring"}, "channel": {"webhook"}, "key": {"k1"}})
	b.post("/ui/campaigns", url.Values{"title": {"x"}, "rate": {"fast"}, "key": {"k2"}})        // asked for wrongly
	b.post("/ui/campaigns", url.Values{"title": {"x"}, "key": {"k3"}, "then": {"more-button"}}) // the form again
	b.post("/ui/campaigns/preview", url.Values{"title": {"x"}})                                 // changes nothing
	b.post("/ui/campaigns/none/start", nil)                                                     // is not there
	b.post("/ui/campaigns/"+id+"/start", nil, "HX-Request", "true")                             // the answer is a part of the page
	b.post("/ui/recipients/anna/erase", nil)
	b.get("/ui/campaigns/" + id)
	viewer := w.as(signin.View)
	for range 3 {
		viewer.post("/ui/recipients/anna/erase", nil)
	}
	w.browser().post("/ui/sign-in", url.Values{"key": {w.newKey("shop", access.Worker)}})
	b.post("/ui/sign-out", nil)
	want := []string{
		"sign-in  done", "campaign.create " + id + " done", "campaign.start " + id + " done", "recipient.erase " + audit.Erased("shop", "anna") + " done",
		"sign-in  done", "recipient.erase anna refused", "sign-in  refused", "sign-out  done",
	}
	if got := actions(t, &cfg, "shop"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("remembered:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := actions(t, &cfg, "other"); len(got) != 0 {
		t.Errorf("another app's: %v", got)
	}
}

func TestTheAuditLogIsForAdminsOfTheApp(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, keep(&cfg))
	b := w.signedIn()
	for range 101 {
		cfg.Audit.Note(t.Context(), audit.Entry{App: "shop", By: hostile, Way: audit.API, Address: hostile, Action: "key.delete", Object: hostile, Outcome: audit.Failed})
	}
	_, page := b.get("/ui/audit")
	wants(t, page, "key.delete", "&lt;hostile", "Older", "(API)")
	checkHarmless(t, "audit", page)
	_, page = b.get("/ui/audit?deed=sign-in")
	if wants(t, page, "sign-in", "127.0.0.1"); strings.Contains(page, "&lt;hostile") {
		t.Error("it finds what was not asked for")
	}
	_, page = b.get("/ui/audit?by=" + url.QueryEscape(hostile) + "&cursor=" + url.QueryEscape(hostile) + "&deed=" + url.QueryEscape(hostile))
	wants(t, page, "Nothing was done that is like this")
	checkHarmless(t, "a search", page)
	if status, _ := w.as(signin.Send).get("/ui/audit"); status != http.StatusForbidden {
		t.Errorf("somebody who may send: %d", status)
	}
	w.key = w.newKey("other", access.Admin)
	_, page = w.signedIn().get("/ui/audit")
	if wants(t, page, "sign-in"); strings.Contains(page, "key.delete") {
		t.Error("another app's log is shown")
	}
}

// harmless holds the posted requests that change nothing.
var harmless = map[string]bool{"POST /ui/campaigns/preview": true, "POST /ui/send/preview": true, "POST /ui/audience/count": true, "POST /ui/new-template/look": true, "POST /ui/new-segment/look": true, "POST /ui/audience/import/check": true}

func TestEveryChangeOnThePageHasAnAuditName(t *testing.T) {
	name := regexp.MustCompile(`^[a-z-]+\.([a-z-]+|\{action\})$`)
	for pattern, action := range admin.Actions() {
		if posts := strings.HasPrefix(pattern, "POST "); posts && action == "" && !harmless[pattern] {
			t.Errorf("%s changes something and has no name", pattern)
		}
		if action != "" && (!name.MatchString(action) || harmless[pattern]) {
			t.Errorf("%s is called %q", pattern, action)
		}
	}
}
